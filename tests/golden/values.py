"""What calls gave, in files: `ISOPIX_GOLDEN=1 pytest tests -p no:xdist` writes them, to see what differs."""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from isopix.storage.atomic import read_json
from tests.unit.reporting.cases import words

CONSTRAINTS = (Path(__file__).parents[2] / "constraints.txt").read_text()
PACKAGES = ("matplotlib", "pillow", "torch")  # other versions of which draw others
PINNED = all(f"{name}=={version(name).partition('+')[0]}\n" in CONSTRAINTS for name in PACKAGES)
READERS: dict[str, Callable[[Path], Any]] = {
    ".csv": lambda path: path.read_text().splitlines(),
    ".html": lambda path: words(path.read_text()).splitlines(),
    ".png": Image.open,
    "environment.json": read_json,
    "recipe.json": read_json,
}
NUMBER = re.compile(r"(-?\d+\.\d*(?:e[-+]\d+)?)")
LAYOUT = re.compile(r"─+|\s+")  # which depends on the lengths of paths and times
# Of the machine, of the moment and of the place: fields, and parts of texts.
PASSING = {"command", "commit", "device", "folder", "free_bytes", "isopix", "path", "run_id", "seconds"}
PASSING |= {"images_per_second", "peak_memory_bytes", "platform", "python", "started", "time", "written"}
# Rounding errors, and what they grow in.
PASSING |= {"grad_norm", "iterations", "t-SNE", "UMAP", "feature_projection.png"}
PASSING |= {"attention_distance.png", "entropy_std", "pillow", "probing_seconds", "torch", "training_seconds"}
TEXTS = re.compile(
    r"cpu \(.*? cores?(, \w+)?\)|memory: available.*|/\S+/(?=\w)|\bout\d+\b|\b\d+:\d\d\b"
    r"|Written by .*|(commit|isopix|platform|python) {2,}.*"
)


def check_golden(name: str, case: str, value: Any, base: Any = ()) -> None:
    """Assert that a case gives what it gave: texts are equal, numbers to 0.1% or their last digit.

    With `base`, only what differs from it is kept and compared.
    """
    file = Path(__file__).parent / f"{name}.json"
    golden = json.loads(file.read_text()) if file.exists() else {}
    found = different(dict(leaves(value)), dict(leaves(base)))
    if os.environ.get("ISOPIX_GOLDEN"):
        golden[case] = found
        file.write_text(json.dumps(golden, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    wrong = different(found, golden[case])
    assert not wrong or not PINNED, wrong


def different(found: Mapping[str, str], expected: Mapping[str, str]) -> dict[str, str]:
    """Return what differs from what is expected; an empty text is missing."""
    paths = found.keys() | expected.keys()
    return {
        path: found.get(path, "") for path in paths if not same(found.get(path, ""), expected.get(path, ""))
    }


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the text of what a value contains; many numbers are summarized."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key not in PASSING:
                yield from leaves(each, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, bytes | Image.Image | Tensor | np.ndarray):
        numbers = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else np.asarray(value)
        yield path, summary(numbers.astype(float).ravel())
    elif isinstance(value, list | tuple):
        numbers = flat(value)
        if len(numbers) > 4 and all(isinstance(each, int | float) for each in numbers):
            yield path, summary(np.array(numbers, float))
        else:
            for place, each in enumerate(value):
                yield from leaves(each, f"{path}.{place}".removeprefix("."))
    else:
        yield path, f"{value:#.5g}" if isinstance(value, float) else TEXTS.sub("", str(value))


def contents(folder: Path | None) -> dict[str, Any]:
    """Return the settings, tables, pictures and the text of the pages of a folder."""
    files = sorted(folder.rglob("*")) if folder and folder.is_dir() else []
    kinds = {each: each.name if each.suffix == ".json" else each.suffix for each in files}
    kept = {each: kind for each, kind in kinds.items() if kind in READERS and each.name not in PASSING}
    return {each.name: READERS[kind](each) for each, kind in kept.items()}


def flat(value: Any) -> list[Any]:
    return [leaf for each in value for leaf in flat(each)] if isinstance(value, list | tuple) else [value]


def summary(numbers: np.ndarray) -> str:
    """Return the count, the sum, and a sum that depends on the order, of numbers; NaN counts as -1."""
    numbers = np.nan_to_num(numbers, nan=-1)
    turned = float(numbers @ np.cos(np.arange(len(numbers))))
    return f"{len(numbers)} numbers, sum {numbers.sum():#.5g}, turned {turned:#.4g}"


def same(found: str, expected: str) -> bool:
    ours, theirs = (NUMBER.split(LAYOUT.sub(" ", each).strip()) for each in (found, expected))
    noise = [0.0] * len(theirs[1::2])
    if theirs[-3:-2] == [", turned "]:  # of many numbers, whose rounding errors the processor decides
        noise = [each * abs(float(theirs[-2])) for each in (2e-3, 1e-2)]
    return ours[::2] == theirs[::2] and all(map(close, ours[1::2], theirs[1::2], noise))


def close(found: str, expected: str, noise: float) -> bool:
    digits, _, exponent = expected.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return abs(float(found) - float(expected)) <= max(1.01 * unit, 1e-3 * abs(float(expected)), noise)
