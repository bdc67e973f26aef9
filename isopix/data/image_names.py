"""The names of images: paths of files, or where they are in a file of many."""

import os
from collections.abc import Iterable

from isopix.data.dataset import DataConfig, open_source
from isopix.data.sources.base import joined
from isopix.data.splits import Split
from isopix.storage.cache import default_cache


def image_names(config: DataConfig, split: Split) -> list[str]:
    """Return the name of each image as its source has it: a file's path, empty if not known."""
    if split.rows is None:
        return [""] * len(split)
    source = joined([*open_source(config, default_cache())().splits.values()])
    if len(split) and int(split.rows.max()) >= source.num_images:
        raise ValueError(f"dataset '{config.source}' has changed: it has fewer images than it had")
    return [source.image_name(row) for row in split.rows.tolist()]


def shared_folder(names: Iterable[str]) -> str:
    """Return the folder that all images of these names are in; empty if there is none."""
    folders = {os.path.split(each)[0] for each in names}
    if not folders or len({each.startswith(os.sep) for each in folders}) > 1:
        return ""
    folder = os.path.commonpath(folders)
    return "" if folder == os.sep else folder


def short_name(name: str, folder: str) -> str:
    """Return the name of an image as seen from the folder that all are in."""
    return os.path.relpath(name, folder) if folder else name
