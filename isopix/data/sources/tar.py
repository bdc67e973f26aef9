"""WebDataset: tar files whose neighboring files of one name, such as 0001.jpg and 0001.cls, are a sample."""

import json
import os
import re
import tarfile
from array import array
from collections.abc import Iterator
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

import numpy as np

from isopix.core.text import naming
from isopix.data.decode import MAX_BYTES, image_suffixes, missing_packages
from isopix.data.sources.base import (
    READERS,
    Reader,
    ReadOptions,
    Source,
    SourceSplit,
    files_below,
    files_by_split,
    joined,
    source_of_files,
)
from isopix.data.sources.folder import has_images
from isopix.storage.atomic import read_regular

CLASS_NAMES = "classnames.txt"  # beside the shards, one a line, as CLIP benchmark's datasets have it
LABEL_FIELDS = ("label", "cls")  # of a .json file
TAR_NAME = re.compile(r"[^.].*\.(tar|tar\.gz|tgz|tar\.bz2|tar\.xz|tar\.zst)", re.IGNORECASE)

Parts = dict[str, tarfile.TarInfo]  # the files of a sample by what follows the first dot of their names


def read_tar(path: Path, options: ReadOptions) -> Source:
    """Read one tar file as the training split, or a folder of them by split (see `files_by_split`).

    A sample has one image, and an integer label in a .cls file or in a .json file (`label` or `cls`).
    """
    files, class_names = files_by_split(path, TAR_NAME, options), path / CLASS_NAMES
    splits = {name: joined(list(map(_shard, shards))) for name, shards in files.items()}
    for name, split in splits.items():
        if not split.num_images:
            allowed = " ".join(image_suffixes())
            raise ValueError(f"tar file {files[name][0]} has no images; allowed suffixes: {allowed}")
    classes: list[str] = []
    if class_names.is_file():
        with naming(f"file {class_names} of class names"):
            classes = read_regular(class_names).decode().splitlines()
    read = chain(*files.values(), [class_names] if classes else [])
    return source_of_files(path, read, splits, classes, options)


def _shard(path: Path) -> SourceSplit:
    names, starts, sizes, labels = list[str](), array("q"), array("q"), array("q")
    with naming(f"tar file {path}"), _open(path) as archive:
        for key, parts in _samples(archive):
            image, label = _image(key, parts), _label(archive, parts)
            if image is None and label is None:
                continue  # a note beside the samples
            names.append(key if image is None else image.name)
            starts.append(0 if image is None else image.offset_data)
            sizes.append(0 if image is None else image.size)
            labels.append(-1 if label is None else label)

    def read_range(start: int, stop: int) -> Iterator[bytes]:
        with naming(f"tar file {path}"), path.open("rb") as file:
            for i in range(start, stop):
                size = min(sizes[i], MAX_BYTES + 1)  # decoding refuses what is larger
                content = os.pread(file.fileno(), size, starts[i])
                if len(content) < size:
                    raise ValueError("it was cut off while it was read")
                yield content

    return SourceSplit(len(names), read_range, lambda i: f"{path}/{names[i]}", np.array(labels, np.int64))


def _open(path: Path) -> tarfile.TarFile:
    if not path.name.lower().endswith(".tar"):
        raise ValueError("it is compressed, so that no image can be read by itself; unpack it (gunzip)")
    return tarfile.open(path, "r:")


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


def _image(key: str, parts: Parts) -> tarfile.TarInfo | None:
    """Return the image of a sample: of one extension, or else of several, as in 0001.image.png."""
    suffixes = {*image_suffixes(), *missing_packages()}
    images = [extension for extension in parts if f".{extension.rpartition('.')[2]}" in suffixes]
    plain = [extension for extension in images if "." not in extension] or images
    if len(plain) > 1:
        raise ValueError(f"sample '{key}' has {len(plain)} images: {', '.join(plain[:5])}; allowed: one")
    return parts[plain[0]] if plain else None


def _label(archive: tarfile.TarFile, parts: Parts) -> int | None:
    kind = next((each for each in ("cls", "json") if each in parts), None)
    file = None if kind is None else archive.extractfile(parts[kind])
    if kind is None or file is None:
        return None
    with naming(f"file '{parts[kind].name}'"):
        text = file.read().decode()
        if kind == "cls":
            return int(text)
        fields = json.loads(text)
    values = [fields.get(name) for name in LABEL_FIELDS] if isinstance(fields, dict) else []
    return next((value for value in values if type(value) is int and abs(value) < 2**63), None)


def _claims(path: Path) -> bool:
    return not has_images(path) and bool(files_below(path, TAR_NAME))


READERS["tar"] = Reader(_claims, read_tar)
