"""WebDataset: tar files whose neighboring files of one name, such as 0001.jpg and 0001.cls, are a sample."""

import json
import os
import re
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isopix.data.decode import MAX_BYTES
from isopix.data.sources.base import MAX_LABEL, Source, SourceSplit, labels_or_none, with_class_names
from isopix.data.sources.file_index import hash_table
from isopix.data.sources.file_table import FileTable
from isopix.data.sources.folder import IMAGE_SUFFIXES
from isopix.data.sources.shards import ShardIndex, files_by_split
from isopix.data.sources.tar_members import TarMember, tar_members
from isopix.storage.atomic import open_file, read_regular

CLASS_NAMES = "classnames.txt"  # beside the shards, one a line, as CLIP benchmark's datasets have it
LABEL_FIELDS = ("label", "cls")  # of a .json file
INTEGER = re.compile(r"-?[0-9]{1,19}")
MAX_LABEL_BYTES = 2**20  # of the file of a label
TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
Parts = dict[str, TarMember]  # the files of a sample by what follows the first dot of their names


class TarShard(NamedTuple):
    """An archive, and the name, place, size and label (-1 for none) of the image of each sample."""

    path: Path
    names: FileTable
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    labels: NDArray[np.int64]

    def images(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield images `start` to `stop - 1`. Raises ValueError if the file has changed meanwhile."""
        with _opened(self.path) as descriptor:
            for i in range(start, stop):
                size = min(int(self.sizes[i]), MAX_BYTES + 1)  # decoding refuses what is larger
                content = os.pread(descriptor, size, int(self.starts[i]))
                if len(content) < size:
                    raise ValueError("it was cut off while it was read")
                yield content


def read_webdataset(path: Path, index: Path | None = None) -> Source:
    """Read one tar file as the training split, or a folder of files that begin with, or lie in, the split's
    name.

    A sample has one image, and a label in a .cls file (an integer) or in a .json file (`label` or `cls`, if
    it is an integer). One without an image is an image that cannot be read. The hashes of files are kept in
    the folder `index` (`hash_table`). Raises ValueError if a file cannot be read or none is train.
    """
    root = path if path.is_dir() else path.parent
    files = files_by_split(path, tar_files(path) if path.is_dir() else [path], "tar")
    splits = {
        name: _split([_index_shard(each) for each in paths], str(path)) for name, paths in files.items()
    }
    if not all(split.num_images for split in splits.values()):
        empty = next(name for name, split in splits.items() if not split.num_images)
        raise ValueError(
            f"tar file {files[empty][0]} has no images; allowed suffixes: {' '.join(IMAGE_SUFFIXES)}"
        )
    names_file = root / CLASS_NAMES if path.is_dir() else None
    names = _class_names(names_file) if names_file is not None and names_file.is_file() else ()
    table = FileTable(root, (each.relative_to(root).as_posix() for paths in files.values() for each in paths))
    table.extend([CLASS_NAMES] if names else [])
    name = path.resolve().name.removesuffix(".tar")
    return with_class_names(Source(name, splits, (), hash_table(table, index=index)), names)


def tar_files(folder: Path) -> list[Path]:
    """Return the tar files of a folder and of its sub-folders, one level deep, compressed or not."""
    return sorted(path for path in (*folder.glob("*"), *folder.glob("*/*")) if is_tar(path))


def is_tar(path: Path) -> bool:
    """Return whether a file is a tar file, compressed or not, by its name."""
    return path.name.lower().endswith(TAR_SUFFIXES) and not path.name.startswith(".")


def _split(shards: list[TarShard], where: str) -> SourceSplit:
    index = ShardIndex(len(shard.starts) for shard in shards)

    def read_range(start: int, stop: int) -> Iterator[bytes]:
        for shard, first, end in index.ranges(start, stop):
            yield from shards[shard].images(first, end)

    def image_name(i: int) -> str:
        shard, row = index.row(i)
        return shards[shard].names.location(row)

    labels = labels_or_none(np.concatenate([shard.labels for shard in shards]), where)
    return SourceSplit(len(index), read_range, image_name, labels)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file, and name it in a ValueError that is raised meanwhile."""
    try:
        with open_file(path, os.O_RDONLY) as file:
            yield file.fileno()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"tar file {path} cannot be read: {reason}") from error


def _index_shard(path: Path) -> TarShard:
    names, starts, sizes, labels = FileTable(path), array("q"), array("q"), array("q")
    with _opened(path) as descriptor:
        for key, parts in _samples(descriptor):
            image, label = _image(key, parts), _label(descriptor, parts)
            if image is None and label is None:
                continue  # a note beside the samples
            names.extend([key if image is None else image.name])
            starts.append(0 if image is None else image.start)
            sizes.append(0 if image is None else image.size)
            labels.append(-1 if label is None else label)
    return TarShard(path, names, *(np.array(each, np.int64) for each in (starts, sizes, labels)))


def _samples(descriptor: int) -> Iterator[tuple[str, Parts]]:
    """Yield the name and the files of each sample. Raises ValueError if a file is there twice."""
    keyed = ((*_key(member.name), member) for member in tar_members(descriptor))
    for key, group in groupby((each for each in keyed if each[0]), key=itemgetter(0)):
        parts: Parts = {}
        for _, extension, member in group:
            if extension in parts:
                raise ValueError(f"file '{member.name}' is there twice in sample '{key}'")
            parts[extension] = member
        yield key, parts


def _key(name: str) -> tuple[str, str]:
    """Return the sample and the extension of a file: its name up to the first dot of its last part, and what
    follows in lower case. The sample is empty for metadata, such as __info__.json, and hidden files.
    """
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    if not extension or not stem or (stem.startswith("__") and stem.endswith("__")):
        return "", ""
    return folder + slash + stem, extension.lower()


def _image(key: str, parts: Parts) -> TarMember | None:
    """Return the image of a sample: of one extension, or else of several, as in 0001.image.png."""
    images = [extension for extension in parts if f".{extension.rpartition('.')[2]}" in IMAGE_SUFFIXES]
    plain = [extension for extension in images if "." not in extension] or images
    if len(plain) > 1:
        raise ValueError(
            f"sample '{key}' has {len(plain)} images: {', '.join(plain[:5])}; allowed: one for each name up "
            "to its first dot"
        )
    return parts[plain[0]] if plain else None


def _label(descriptor: int, parts: Parts) -> int | None:
    """Return the label of a sample, if it has one. Raises ValueError for a file that is not of its kind."""
    if "cls" in parts:
        text = _text(descriptor, parts["cls"]).strip()
        if not INTEGER.fullmatch(text):
            raise ValueError(f"file '{parts['cls'].name}' is not an integer of 64 bits")
        return _checked(int(text), parts["cls"])
    if "json" not in parts:
        return None
    fields = _json(descriptor, parts["json"])
    given = (value for name in LABEL_FIELDS if type(value := fields.get(name)) is int)
    label = next(given, None)
    return None if label is None else _checked(label, parts["json"])


def _json(descriptor: int, member: TarMember) -> dict[str, object]:
    try:
        values = json.loads(_text(descriptor, member))
    except (ValueError, RecursionError):
        raise ValueError(f"file '{member.name}' is not JSON") from None
    return values if isinstance(values, dict) else {}


def _text(descriptor: int, member: TarMember) -> str:
    if member.size > MAX_LABEL_BYTES:
        raise ValueError(f"file '{member.name}' has {member.size:,} bytes; allowed: {MAX_LABEL_BYTES:,}")
    return os.pread(descriptor, member.size, member.start).decode()


def _checked(label: int, member: TarMember) -> int:
    if abs(label) > MAX_LABEL:
        raise ValueError(f"file '{member.name}' has a label above {MAX_LABEL}")
    return label


def _class_names(path: Path) -> list[str]:
    """Return the lines of a file. Raises ValueError if it is not text, or too long."""
    try:
        return read_regular(path).decode().splitlines()
    except (OSError, ValueError) as error:
        raise ValueError(f"file {path} of class names cannot be read: {error}") from error
