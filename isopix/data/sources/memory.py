"""Images in memory, kept as an Arrow file of the cache: a dataset with a path, from which runs resume."""

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from isopix.core.text import expand_home
from isopix.data.decode import RawImage, failure_reason, range_note, upright_rgb
from isopix.storage.atomic import temporary_folder
from isopix.storage.cache import default_cache
from isopix.storage.provenance import BLAKE2B

CHANNELS = (1, 3, 4)  # gray, RGB, RGBA
IMAGE = pa.struct({"bytes": pa.large_binary(), "path": pa.string()})


def store_images(given: Any) -> Path:
    """Return an Arrow file of images, named by a hash of them; files are not copied.

    They are an array [n H W] or [n H W C], a tensor [n C H W], or a sequence or a PyTorch dataset of what
    `raw_image` takes, or of pairs of it and a label. Raises ValueError for others.
    """
    single = isinstance(given, bytes | Image.Image | Mapping) or not hasattr(given, "__len__")
    if not single and not len(given):
        raise ValueError("expected at least 1 image, got 0")
    items = [given] if single else [given[i] for i in range(len(given))]
    pairs = [each if isinstance(each, tuple) and len(each) == 2 else (each, None) for each in items]
    rows = [_row(raw_image(image)) for image, _ in pairs]
    labels: list[Any] = [getattr(label, "item", lambda own=label: own)() for _, label in pairs]
    columns = {"image": pa.array(rows, IMAGE)}
    if any(each is not None for each in labels):
        columns["label"] = pa.array(labels)
    state = BLAKE2B(repr([(each["path"], len(each["bytes"] or b"")) for each in rows] + labels).encode())
    for each in rows:
        state.update(each["bytes"] or b"")
    path = default_cache() / "given" / f"images-{state.hexdigest()[:12]}.arrow"
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    with temporary_folder(path, str(path)) as folder:
        with pa.OSFile(str(folder / "file"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        (folder / "file").rename(path)
    return path


def raw_image(given: Any, white: int | None = None) -> RawImage:
    """Return a uint8 array or tensor, a PIL image, a path, or the bytes of a file as it is decoded later.

    Arrays are [H W], [H W C] or [C H W]; if unclear, only tensors are [C H W]. Raises ValueError for others.
    """
    if isinstance(given, Tensor | np.ndarray):
        return _pixels(given)
    if isinstance(given, Image.Image):
        if given.mode == "I" and given.format is None:  # read from a 16-bit file, it has a format
            raise ValueError("the image has 32-bit samples of unknown range; convert it to RGB or I;16")
        try:
            range_note([np.asarray(given)], white)  # raises ValueError
            return np.asarray(upright_rgb(given, white))
        except Exception as error:  # Pillow raises a dozen types for damaged files
            raise ValueError(f"the image cannot be read: {failure_reason(error)}") from None
    if isinstance(given, str | os.PathLike) and os.fspath(given):
        return Path(expand_home(given))
    if not isinstance(given, bytes):  # reached by callers that have no type checker
        raise ValueError(f"expected an array, a PIL image or a file for each image, got {given!r}")
    return given


def _row(image: RawImage) -> dict[str, Any]:
    if isinstance(image, Path):
        return {"bytes": None, "path": str(image.absolute())}
    content = io.BytesIO()
    if isinstance(image, np.ndarray):
        Image.fromarray(image).save(content, "PNG")
    return {"bytes": image if isinstance(image, bytes) else content.getvalue(), "path": None}


def _pixels(given: Tensor | NDArray[Any]) -> NDArray[Any]:
    values = given.cpu().numpy() if isinstance(given, Tensor) else given
    channels = [values.shape[axis] in CHANNELS for axis in (0, 2)] if values.ndim == 3 else [values.ndim == 2]
    if values.dtype != np.uint8 or not values.size or not any(channels):
        floats = "; multiply floats from 0 to 1 by 255 and round them" if values.dtype.kind == "f" else ""
        raise ValueError(
            "expected uint8 images [B 3 H W], [B H W 3], [3 H W], [H W 3] or [H W], PIL images, or files; "
            f"got {given.dtype} of shape {list(values.shape)}{floats}"
        )
    if values.ndim == 3 and channels[0] and (isinstance(given, Tensor) or not channels[1]):
        values = values.transpose(1, 2, 0)
    return np.ascontiguousarray(values[..., 0] if values.shape[2:] == (1,) else values)
