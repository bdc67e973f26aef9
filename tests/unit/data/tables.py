"""Tables in the Hugging Face layout, for tests."""

import io
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from PIL import Image


def encoded(seed: int) -> bytes:
    """A PNG of 8x8 noise."""
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(
        buffer, "PNG"
    )
    return buffer.getvalue()


def table(
    count: int, *, names: Sequence[str] = (), image: str = "img", label: str = "label", seed: int = 0
) -> pa.Table:
    """Images and labels 0, 1, 2, 0, 1, 2, ...; with `names` the label is declared as ClassLabel."""
    pictures = [{"bytes": encoded(seed + i), "path": None} for i in range(count)]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = {image: pa.array(pictures, kind), label: pa.array([i % 3 for i in range(count)], pa.int64())}
    features = {image: {"_type": "Image"}, label: {"_type": "ClassLabel", "names": list(names)}}
    whole = pa.table(columns)
    if not names:
        return whole
    return whole.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
