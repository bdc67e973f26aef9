"""Options of the commands that sample."""

from typing import Annotated

from cyclopts import Parameter

from isopix.core.choices import Precision

Temperature = Annotated[
    float, Parameter(help="Softmax temperature; values below 1 sharpen the distribution.")
]
TopK = Annotated[int | None, Parameter(help="Sample from the k most likely colors only.")]
TopP = Annotated[
    float | None, Parameter(help="Sample from the most likely colors whose probabilities add up to p.")
]
SamplingPrecision = Annotated[
    Precision,
    Parameter(
        help="Precision of the KV cache and of matrix products: of all on GPUs, of large ones on CPUs with "
        "bf16 instructions."
    ),
]
Compile = Annotated[
    bool | None,
    Parameter(
        help="Use torch.compile: takes 10 to 30 s the first time and a few seconds later, then samples "
        "faster. Default: on GPUs."
    ),
]
