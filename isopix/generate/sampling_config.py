"""SamplingConfig: the distribution that codes are drawn from, and how it is computed."""

import math
from contextlib import AbstractContextManager
from typing import Annotated

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from isopix.core.config import config
from isopix.core.device import PRECISIONS, Precision, autocast, compiles_by_default, native_precision
from isopix.core.ranges import Count, Range, check_ranges
from isopix.core.types import Codes

LOWEST_TEMPERATURE = 1e-30  # greedy; below, quotients of float32 logits would overflow

NextLogits = Float[Tensor, "B Q K"]
NextCodes = Codes  # [B 1 Q]


@config
class SamplingConfig:
    """Settings of sampling from logits; the defaults sample from the model's own distribution, as the paper.

    `temperature` divides the logits. `top_k` keeps the k most likely codes. `top_p` keeps the smallest set of
    most likely codes whose probabilities, after temperature, sum to at least p (nucleus sampling).

    With `precision` bf16 the keys and values of earlier positions are rounded to bf16, and on devices with
    instructions for it matrix products, too: on GPUs all of them, on CPUs those of attention and MLPs by
    large matrices. With `compile` the step that samples a position is compiled, which takes some ten seconds;
    None does so on GPUs where Triton is installed.
    """

    temperature: float = 1.0
    top_k: Count | None = None
    top_p: Annotated[float, Range(above=0, high=1)] | None = None
    precision: Precision = "fp32"
    compile: bool | None = None

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision is {self.precision!r}; allowed: {', '.join(PRECISIONS)}")
        if self.compile is not None and not isinstance(self.compile, bool):
            raise ValueError(f"compile is {self.compile!r}; allowed: True, False, None")
        if self.top_k is not None and (isinstance(self.top_k, bool) or not isinstance(self.top_k, int)):
            raise ValueError(f"top_k is {self.top_k!r}; allowed: a whole number of at least 1, None")
        if not 0 < self.temperature < math.inf:
            raise ValueError(
                f"temperature {self.temperature} must be a finite number greater than 0; "
                "use top_k=1 for greedy decoding"
            )

    def sample_codes(self, logits: NextLogits, uniform: Float64[Tensor, "B Q"]) -> NextCodes:
        """Return the codes at which the cumulative probabilities, in float64, exceed `uniform`; on the device
        of `uniform`, which need not be that of the logits.
        """
        cumulative = self.probabilities(logits).to(uniform.device).double().cumsum(-1)
        codes = (cumulative / cumulative[..., -1:] <= uniform[..., None]).sum(-1)
        return codes[:, None].to(logits.device)

    def compiles_on(self, device: torch.device) -> bool:
        """Return whether the step is compiled on this device."""
        return compiles_by_default(device) if self.compile is None else self.compile

    def rounds_matrices_on(self, device: torch.device) -> bool:
        """Return whether large matrices are rounded to bf16 once: a CPU would cast them at every position for
        longer than it multiplies.
        """
        return self.precision == "bf16" and device.type == "cpu" and native_precision(device) == "bf16"

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """Return the context of products; on CPUs see `rounds_matrices_on`."""
        return autocast(device, self.precision if device.type == "cuda" else "fp32")

    def probabilities(self, logits: NextLogits) -> NextLogits:
        """Return probabilities after temperature, top-k and top-p; codes tied at a cutoff are kept."""
        logits = logits.float() / max(self.temperature, LOWEST_TEMPERATURE)
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            cutoff = logits.topk(self.top_k).values[..., -1:]
            logits = logits.masked_fill(logits < cutoff, -torch.inf)
        probabilities = logits.softmax(-1)
        if self.top_p is not None and self.top_p < 1:
            ranked = probabilities.sort(descending=True).values
            kept = ranked.cumsum(-1) - ranked < self.top_p
            cutoff = ranked.masked_fill(~kept, torch.inf).amin(-1, keepdim=True)
            probabilities = probabilities.masked_fill(probabilities < cutoff, 0)
        return probabilities / probabilities.sum(-1, keepdim=True)
