"""WebDataset: tar files whose neighboring files of one name, such as 0001.jpg and 0001.cls, are a sample."""

import json
import os
import re
import tarfile
from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from isopix.core.files import MAX_BYTES, open_file, read_regular, regular
from isopix.core.text import naming
from isopix.data.dataset import DataConfig
from isopix.data.decode import PACKAGES, image_suffixes
from isopix.data.sources.base import (
    READERS,
    Reader,
    Source,
    SourceSplit,
    files_below,
    files_by_split,
    joined,
    source_of_files,
)
from isopix.data.sources.folder import has_images
from isopix.data.sources.labels import LABEL_NAMES, label_of
from isopix.data.sources.split_names import require_one_split

CLASS_NAMES = "classnames.txt"  # beside the shards, one a line, as CLIP benchmark's datasets have it
TAR_NAME = re.compile(r"[^.].*\.(tar|tar\.gz|tgz|tar\.bz2|tar\.xz|tar\.zst)", re.IGNORECASE)

Parts = dict[str, tarfile.TarInfo]  # the files of a sample by what follows the first dot of their names


def read_tar(path: Path, config: DataConfig) -> Source:
    """Read one tar file as the training split, or a folder of them by split (see `files_by_split`).

    A sample has one image, and a label in a .cls file, or in a .json file by one of `LABEL_NAMES`.
    """
    files, class_names = files_by_split(path, TAR_NAME, config), path / CLASS_NAMES
    splits = {name: joined([_shard(each, config) for each in shards]) for name, shards in files.items()}
    for name, split in splits.items():
        if not split.num_images:
            allowed = " ".join(image_suffixes())
            raise ValueError(f"tar file {files[name][0]} has no images; allowed suffixes: {allowed}")
    classes: list[str] = []
    if class_names.is_file():
        with naming(f"file {class_names} of class names"):
            classes = read_regular(class_names).decode().splitlines()
    read = chain(*files.values(), [class_names] if classes else [])
    source = source_of_files(path, read, splits, classes, config)
    unread = () if source.classes or config.label_column else _unread_labels(files["train"][0])
    return replace(source, notes=(*source.notes, *unread))


def _unread_labels(path: Path) -> Iterator[str]:
    """Yield a note of what may be labels, fields and folders, beside the first sample of a file."""
    with _open(path) as archive:
        key, parts = next(_samples(archive), ("", {}))
        fields = _fields(archive, parts)
    if names := ", ".join(name for name, each in fields.items() if label_of(each) is not None):
        yield f"no labels are read; fields that may hold labels: {names}; data.label_column=NAME chooses one"
    if "/" in key:
        yield f"no labels are read; folders in tar files, as {key.rpartition('/')[0]}, are none; unpack them"


def _shard(path: Path, config: DataConfig) -> SourceSplit:
    names, starts, sizes, labels = list[str](), array("q"), array("q"), list[object]()
    with naming(f"tar file {path}"), _open(path) as archive:
        for key, parts in _samples(archive):
            image = _image(key, parts, config.image_column)
            label = _label(archive, parts, config.label_column)
            if image is None and label is None:
                continue  # a note beside the samples
            names.append(key if image is None else image.name)
            starts.append(0 if image is None else image.offset_data)
            sizes.append(0 if image is None else image.size)
            labels.append(label)
        if config.splits == "auto":
            require_one_split("it", {name[: name.rfind("/") + 1] for name in names})

    def read_range(start: int, stop: int) -> Iterator[bytes]:
        with naming(f"tar file {path}"), open_file(path) as file:
            for i in range(start, stop):
                size = min(sizes[i], MAX_BYTES + 1)  # decoding refuses what is larger
                content = os.pread(file.fileno(), size, starts[i])
                if len(content) < size:
                    raise ValueError("it was cut off while it was read")
                yield content

    return SourceSplit(len(names), read_range, lambda i: f"{path}/{names[i]}", np.array(labels, object))


def _open(path: Path) -> tarfile.TarFile:
    if not path.name.lower().endswith(".tar"):
        raise ValueError("it is compressed; decompress it, as with gunzip")
    return tarfile.open(regular(path), "r:")


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the regular files. Raises ValueError if the archive does not end in a block of zeros."""
    while (member := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined]  # else all of them stay in memory
        if member.isreg():
            yield member
    assert archive.fileobj is not None
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise ValueError("it is cut off or damaged: it has no end, a block of zeros")


def _samples(archive: tarfile.TarFile) -> Iterator[tuple[str, Parts]]:
    """Yield the name and the files of each sample; of files of one name the last, as in unpacking."""
    keyed = ((*_key(member.name), member) for member in _members(archive))
    for key, group in groupby((each for each in keyed if each[0]), key=itemgetter(0)):
        yield key, {extension: member for _, extension, member in group}


def _key(name: str) -> tuple[str, str]:
    """Split a name at the first dot of its last part; no sample has __info__.json or hidden files."""
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    if not extension or not stem or (stem.startswith("__") and stem.endswith("__")):
        return "", ""
    return folder + slash + stem, extension.lower()


def _image(key: str, parts: Parts, wanted: str | None) -> tarfile.TarInfo | None:
    """Return the image of a sample: of one extension, or else of several, as in 0001.image.png."""
    if wanted is not None:
        return parts.get(wanted.lower())
    suffixes = {*image_suffixes(), *PACKAGES}
    images = [extension for extension in parts if f".{extension.rpartition('.')[2]}" in suffixes]
    plain = [extension for extension in images if "." not in extension] or images
    if len(plain) > 1:
        found = f"sample '{key}' has {len(plain)} images: {', '.join(plain[:5])}"
        raise ValueError(f"{found}; allowed: one, or data.image_column={plain[0]}")
    return parts[plain[0]] if plain else None


def _label(archive: tarfile.TarFile, parts: Parts, wanted: str | None) -> int | str | None:
    if wanted is None and "cls" in parts:
        is_number = re.compile(r"[-+]?\d{1,18}").fullmatch
        return _parsed(archive, parts["cls"], lambda text: int(text) if is_number(text) else text or None)
    fields = _fields(archive, parts)
    labels = (label_of(fields.get(name)) for name in ((wanted,) if wanted else LABEL_NAMES))
    return next((each for each in labels if each is not None), None)


def _fields(archive: tarfile.TarFile, parts: Parts) -> dict[str, Any]:
    fields = _parsed(archive, parts["json"], json.loads) if "json" in parts else {}
    return fields if isinstance(fields, dict) else {}


def _parsed(archive: tarfile.TarFile, member: tarfile.TarInfo, parse: Callable[[str], Any]) -> Any:
    file = archive.extractfile(member)
    assert file is not None, "it is a regular file"
    with naming(f"file '{member.name}'"):
        if member.size > MAX_BYTES:
            raise ValueError(f"it has {member.size:,} bytes, above the limit of {MAX_BYTES:,}")
        return parse(file.read().decode().strip())


READERS["tar"] = Reader(lambda path: not has_images(path) and bool(files_below(path, TAR_NAME)), read_tar)
