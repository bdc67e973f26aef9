"""Weights as strangers left them: every tensor is known by its shape before one is read; nothing runs."""

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
from isopix.storage.safetensors_io import check_header

INDEX = ".index.json"
SINGLE = ("model.safetensors", "pytorch_model.bin")  # the safer first
SAFE_TORCH = "2.10"  # before it, `weights_only=True` could be made to corrupt memory (CVE-2026-24747)
SHOWN = 100  # characters of a name in a message


class Weights(NamedTuple):
    """Tensors in one file or several: their shapes, and how to read one."""

    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], Tensor]


def open_weights(folder: Path) -> Weights:
    """`model.safetensors` or `pytorch_model.bin`, whole or in the shards that an index names.

    Raises ValueError, which begins with a file's name, for a file that is missing, damaged or holds anything
    but tensors.
    """
    for name in SINGLE:
        if (folder / name).is_file():
            return _open(folder / name)
        if (folder / f"{name}{INDEX}").is_file():
            return _joined(folder / f"{name}{INDEX}")
    raise ValueError(f"there is no {' and no '.join(SINGLE)}, nor the {INDEX} of either")


def quoted(value: object) -> str:
    """A stranger's value for a message: in one line, and shortened where it is long or deep."""
    shortener = reprlib.Repr()
    shortener.maxstring = shortener.maxother = SHOWN
    return shortener.repr(value)


def _open(path: Path) -> Weights:
    return _pickled(path) if path.suffix == ".bin" else _listed(path)


def _listed(path: Path) -> Weights:
    """A safetensors file, opened anew for each tensor: what was read of it is not kept in memory."""
    check_header(path)
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in list(file.keys())}
    except SafetensorError as error:
        raise ValueError(f"{path.name} is no safetensors file: {' '.join(str(error).split())}") from None

    def read(name: str) -> Tensor:
        with safe_open(path, framework="pt") as file:
            tensor: Tensor = file.get_tensor(name)
            return tensor

    return Weights(shapes, read)


def _joined(index: Path) -> Weights:
    """The shards as one. Raises ValueError if they do not hold exactly what the index says."""
    places = _places(index)
    shards = {}
    for file in sorted(set(places.values())):
        if not (index.parent / file).is_file():
            raise ValueError(f"{file}, which {index.name} names, is missing")
        shards[file] = _open(index.parent / file)
    held = {(name, file) for file, weights in shards.items() for name in weights.shapes}
    for name, file in sorted(held ^ places.items()):
        wrong = "holds {}, which {} does not place there" if (name, file) in held else "lacks {}; see {}"
        raise ValueError(f"{file} {wrong.format(quoted(name), index.name)}")
    shapes = {name: shards[file].shapes[name] for name, file in places.items()}
    return Weights(shapes, lambda name: shards[places[name]].read(name))


def _places(index: Path) -> dict[str, str]:
    """The shard of each tensor. A shard is a file beside the index, never a path."""
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict):
        raise ValueError(f"{index.name} has no weight_map")
    suffix = Path(index.name.removesuffix(INDEX)).suffix
    for file in places.values():
        if not isinstance(file, str) or not re.fullmatch(rf"[\w-][\w.-]{{0,200}}{re.escape(suffix)}", file):
            raise ValueError(f"{index.name} names {quoted(file)}, which is no {suffix} file beside it")
    return places


def _pickled(path: Path) -> Weights:
    """A file of `torch.save`, mapped: what is read of it is tensors, and no more of them than it holds."""
    if torch.__version__ < SAFE_TORCH:
        raise ValueError(
            f"{path.name} is a pickle, which torch {torch.__version__} does not read safely; "
            f"{SAFE_TORCH} does"
        )
    if not _is_stored_archive(path):
        raise ValueError(f"{path.name} is no file as torch.save writes it since PyTorch 1.6")
    try:
        with warnings.catch_warnings(action="ignore"):  # a file that warns is read or refused like any other
            values = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # a damaged or hostile pickle fails in more ways than can be listed
        raise ValueError(
            f"{path.name} is damaged or holds more than tensors ({type(error).__name__}); none of it was run"
        ) from None
    if not isinstance(values, dict):
        raise ValueError(f"{path.name} holds no tensors by name but a {type(values).__name__}")
    for name, value in values.items():
        _check_plain(f"{path.name} has under {quoted(name)}", name, value)
    total, size = sum(tensor.nbytes for tensor in values.values()), path.stat().st_size
    if total > size:
        raise ValueError(f"{path.name} has {size} bytes; its tensors would take {total}")
    shapes = {name: tuple(tensor.shape) for name, tensor in values.items()}
    return Weights(shapes, lambda name: values[name])


def _is_stored_archive(path: Path) -> bool:
    """Whether it is a zip file whose entries take the room that they claim; torch.save compresses none."""
    try:
        with zipfile.ZipFile(path) as archive:
            return all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def _check_plain(where: str, name: object, value: object) -> None:
    """Raises ValueError for anything but a named tensor all of whose elements are stored."""
    if not isinstance(name, str) or type(value) not in (Tensor, nn.Parameter):
        raise ValueError(f"{where} a {type(value).__name__}, which is no named tensor")
    assert isinstance(value, Tensor)
    if value.is_nested or value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
        raise ValueError(f"{where} a tensor that is not plain numbers")
    if value.untyped_storage().nbytes() < value.nbytes:
        raise ValueError(f"{where} a tensor of shape {tuple(value.shape)}, of which not all is stored")
