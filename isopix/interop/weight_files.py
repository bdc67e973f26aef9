"""Read untrusted weight files: shapes are checked before any tensor is read, and no code is executed."""

import re
import reprlib
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from isopix.storage.atomic import read_json

INDEX = ".index.json"
SINGLE = ("model.safetensors", "pytorch_model.bin")  # the safer format first
SAFE_TORCH = "2.10"  # earlier versions: `weights_only=True` could corrupt memory (CVE-2026-24747)
MAX_SHOWN = 100  # characters of a name in a message


class WeightFiles(NamedTuple):
    """Tensors in one file or several: their shapes, and a function that reads one."""

    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], Tensor]


def open_weights(folder: Path) -> WeightFiles:
    """Open `model.safetensors` or `pytorch_model.bin`, in one file or in the shards that an index lists.

    Raises ValueError, starting with the file's name, if a file is missing, damaged or holds anything but
    tensors.
    """
    for name in SINGLE:
        if (folder / name).is_file():
            return _open_file(folder / name)
        if (folder / f"{name}{INDEX}").is_file():
            return _open_sharded(folder / f"{name}{INDEX}")
    raise ValueError(f"there is no {' or '.join(SINGLE)}, and no {INDEX} of either")


def quote(value: object) -> str:
    """Return an untrusted value for a message: on one line, and shortened where it is long or deep."""
    shortener = reprlib.Repr()
    shortener.maxstring = shortener.maxother = MAX_SHOWN
    return shortener.repr(value)


def _open_file(path: Path) -> WeightFiles:
    return _open_pickle(path) if path.suffix == ".bin" else _open_safetensors(path)


def _open_safetensors(path: Path) -> WeightFiles:
    """Open a safetensors file; it is reopened for each tensor, so that nothing read stays in memory."""
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in list(file.keys())}
    except SafetensorError as error:
        raise ValueError(
            f"{path.name} is not a valid safetensors file: {' '.join(str(error).split())}"
        ) from None

    def read(name: str) -> Tensor:
        with safe_open(path, framework="pt") as file:
            tensor: Tensor = file.get_tensor(name)
            return tensor

    return WeightFiles(shapes, read)


def _open_sharded(index: Path) -> WeightFiles:
    """Open all shards. Raises ValueError if they do not hold exactly what the index lists."""
    places = _shard_of_tensor(index)
    shards = {}
    for file in sorted(set(places.values())):
        if not (index.parent / file).is_file():
            raise ValueError(f"{file}, which {index.name} lists, is missing")
        shards[file] = _open_file(index.parent / file)
    held = {(name, file) for file, weights in shards.items() for name in weights.shapes}
    for name, file in sorted(held ^ places.items()):
        wrong = "holds {}, which {} does not list there" if (name, file) in held else "lacks {}; see {}"
        raise ValueError(f"{file} {wrong.format(quote(name), index.name)}")
    shapes = {name: shards[file].shapes[name] for name, file in places.items()}
    return WeightFiles(shapes, lambda name: shards[places[name]].read(name))


def _shard_of_tensor(index: Path) -> dict[str, str]:
    """Return the shard of each tensor. A shard is a file next to the index, never a path."""
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict):
        raise ValueError(f"{index.name} has no weight_map")
    suffix = Path(index.name.removesuffix(INDEX)).suffix
    for file in places.values():
        if not isinstance(file, str) or not re.fullmatch(rf"[\w-][\w.-]{{0,200}}{re.escape(suffix)}", file):
            raise ValueError(f"{index.name} lists {quote(file)}, which is not a {suffix} file next to it")
    return places


def _open_pickle(path: Path) -> WeightFiles:
    """Open a file of `torch.save`, memory-mapped; it may hold tensors only, no larger than the file."""
    if torch.__version__ < SAFE_TORCH:
        raise ValueError(
            f"{path.name} is a pickle, which torch {torch.__version__} cannot read safely; "
            f"use torch {SAFE_TORCH} or later"
        )
    if not _is_stored_archive(path):
        raise ValueError(f"{path.name} is not a file that torch.save of PyTorch 1.6 or later writes")
    try:
        with warnings.catch_warnings(action="ignore"):  # accepted or rejected below in any case
            values = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # a damaged or hostile pickle can raise anything
        raise ValueError(
            f"{path.name} is damaged or holds more than tensors ({type(error).__name__}); no code was run"
        ) from None
    if not isinstance(values, dict):
        raise ValueError(f"{path.name} holds a {type(values).__name__}, not tensors by name")
    for name, value in values.items():
        _check_plain(f"{path.name}: {quote(name)} is", name, value)
    total, size = sum(tensor.nbytes for tensor in values.values()), path.stat().st_size
    if total > size:
        raise ValueError(f"{path.name} has {size} bytes; its tensors would need {total}")
    shapes = {name: tuple(tensor.shape) for name, tensor in values.items()}
    return WeightFiles(shapes, lambda name: values[name])


def _is_stored_archive(path: Path) -> bool:
    """Return whether it is a zip file without compressed entries, as torch.save writes."""
    try:
        with zipfile.ZipFile(path) as archive:
            return all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def _check_plain(where: str, name: object, value: object) -> None:
    """Raise ValueError for anything but a named dense tensor whose elements are all stored."""
    if not isinstance(name, str) or type(value) not in (Tensor, nn.Parameter):
        raise ValueError(f"{where} a {type(value).__name__}, not a named tensor")
    assert isinstance(value, Tensor)
    if value.is_nested or value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
        raise ValueError(f"{where} not a dense CPU tensor")
    if value.untyped_storage().nbytes() < value.nbytes:
        raise ValueError(f"{where} a tensor of shape {tuple(value.shape)} whose elements are not all stored")
