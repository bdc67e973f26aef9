"""Stored features: 16 bits a number in a sealed folder, mapped into memory and read a batch at a time."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from einops import rearrange

from isopix.probe.feature_splits import DEAD, Features, Frame
from isopix.storage import artifact
from isopix.storage.npy import NpyWriter, open_memmap

FRAMED = 1024  # of the first images, whose centre and spread are everybody's frame

Parts = Iterator[Features]  # of some images, a few at a time


class Stored(NamedTuple):
    """The features of each reading as float16 in the frame, and whether the folder had them already."""

    features: dict[str, Features]
    frame: Frame
    found: bool


def stored(readings: Mapping[str, Callable[[], Parts]], folder: Path) -> Stored:
    """What each of `readings` yields: from `folder` if it holds that whole, else read and put there.

    The frame, in which 16 bits are enough however far from zero a feature lies, is that of the first images
    of the first reading. Raises RuntimeError if the folder cannot be written.
    """
    found = artifact.read_manifest(folder) is not None
    if not found:
        try:
            artifact.write_artifact(folder, lambda scratch: _write(scratch, readings))
        except OSError as error:
            raise RuntimeError(
                f"features cannot be kept in {folder.parent} ({error.strerror}); "
                "set ISOPIX_CACHE to another folder"
            ) from error
    frame = Frame(*(open_memmap(folder / f"{name}.npy") for name in ("centre", "spread")))
    features = {name: open_memmap(folder / f"features-{name}.npy") for name in readings}
    return Stored({name: rearrange(each, "b f d -> f b d") for name, each in features.items()}, frame, found)


def _write(folder: Path, readings: Mapping[str, Callable[[], Parts]]) -> dict[str, Any]:
    frame = None
    for name, read in readings.items():
        parts = read()
        if frame is None:
            head = _head(parts)
            frame, parts = _frame_of(head), chain([head], parts)
            for field, values in (("centre", frame.centre), ("spread", frame.spread)):
                np.save(folder / f"{field}.npy", values.numpy())
        layers, _, width = frame.centre.shape
        with NpyWriter(folder / f"features-{name}.npy", (layers, width), np.float16) as file:
            for part in parts:
                inside = ((part - frame.centre) / frame.spread).half()
                file.append(rearrange(inside, "f b d -> b f d").numpy())
    return {}


def _head(parts: Parts) -> Features:
    """The first images, as many as make a frame."""
    head: list[Features] = []
    while sum(part.shape[1] for part in head) < FRAMED:
        part = next(parts, None)
        if part is None:
            break
        head.append(part)
    return torch.cat(head, 1)


def _frame_of(features: Features) -> Frame:
    """Mean and deviation; the size of what these images show constant, as others may not."""
    centre = features.mean(1, keepdim=True)
    spread, size = features.std(1, keepdim=True, correction=0), centre.abs()
    return Frame(centre, torch.where(spread > DEAD * size, spread, size.clamp_min(1.0)))
