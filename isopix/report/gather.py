"""All that a run folder tells, read once; what cannot be read is listed, never left out in silence."""

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from jaxtyping import Float
from PIL import Image
from torch import Tensor

from isopix.codecs.nearest import ONE
from isopix.model.init import FIXED
from isopix.train import checkpoint, log
from isopix.train.run_folder import RunFolder

T = TypeVar("T")
Values = dict[str, Any]
RECORD = {"layers", "best", "classes", "majority", "images", "warnings"}  # of transfer.evidence
PAPER = {"stream": "n", "pool": "mean", "reading": "paper"}  # how iGPT section 2.4 reads a network
SCORE = {"layer", "test", "low", "high", "validation"}


@dataclass(frozen=True)
class Drawing:
    """A picture in `samples/`, and what was kept beside it."""

    name: str
    png: bytes
    facts: Values


@dataclass(frozen=True)
class Weights:
    """What the newest intact checkpoint holds."""

    step: int
    parameters: int
    colours: Float[Tensor, "K 3"] | None  # levels of 0..255; None for a codec without a palette


@dataclass(frozen=True)
class Gathered:
    """A run: `drawings` and `probes` by step, the newest last; `unreadable` names damaged files and why."""

    path: Path
    recipe: Values
    environment: Values = field(default_factory=dict)
    records: list[Values] = field(default_factory=list)
    weights: Weights | None = None
    drawings: list[Drawing] = field(default_factory=list)
    probes: list[Values] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def probe(self) -> Values | None:
        """The probe that speaks for the run: the newest that reads as the paper does, or else the newest."""
        ours = [probe for probe in self.probes if all(probe["protocol"][key] == PAPER[key] for key in PAPER)]
        return next(reversed(ours or self.probes), None)


def gather(run: RunFolder) -> Gathered:
    """Read a run folder; raises ValueError if its recipe cannot be read."""
    reader = _Reader()
    recipe = _json(run.recipe)
    drawings = [reader.read(path, _drawing) for path in sorted(run.samples.glob("*.json"))]
    probes = [reader.read(path, _probe) for path in sorted(run.probes.glob("*.json"))]
    return Gathered(
        path=run.path,
        recipe=recipe,
        environment=reader.read(run.environment, _json) or {},
        records=reader.records(run.log),
        weights=reader.read(run.checkpoints, _weights),
        drawings=sorted((each for each in drawings if each), key=lambda each: _age(each.facts)),
        probes=sorted((each for each in probes if each), key=_age),
        unreadable=reader.unreadable,
    )


class _Reader:
    """Reads files and remembers which of them could not be read."""

    def __init__(self) -> None:
        self.unreadable: list[str] = []

    def read(self, path: Path, how: Callable[[Path], T]) -> T | None:
        if not path.exists():
            return None
        try:
            return how(path)
        except (ValueError, LookupError, TypeError, OSError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            self.unreadable.append(f"{path.name}: {' '.join(reason.split())}")
            return None

    def records(self, path: Path) -> list[Values]:
        """The lines of a log that can be read."""
        records, lines = self.read(path, log.readable) or ([], [])
        if lines:
            first = f"line {lines[0]} is" if len(lines) == 1 else f"{len(lines)} lines, first {lines[0]}, are"
            self.unreadable.append(f"{path.name}: {first} no record")
        return records


def _age(facts: Values) -> tuple[int, str]:
    """By step, then by when it was written."""
    return int(facts.get("step", 0)), str(facts.get("written", ""))


def _json(path: Path) -> Values:
    try:
        values = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no table of values")
    return values


def _drawing(path: Path) -> Drawing:
    facts = _json(path)
    png = path.with_suffix(".png").read_bytes()
    if not png.startswith(b"\x89PNG\r\n\x1a\n"):
        raise ValueError(f"{path.stem}.png is no PNG")
    try:
        with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
            image.load()
    except Exception as error:
        raise ValueError(f"{path.stem}.png cannot be read: {error}") from None
    return Drawing(path.stem, png, {"kind": "samples", "step": 0} | facts)


def _probe(path: Path) -> Values:
    """Evidence in which every record has what a table needs."""
    values = _json(path)
    for record in (values["network"], *values["controls"].values()):
        needed = [(RECORD, record), *((SCORE, score) for score in record["layers"])]
        for missing in (names - part.keys() for names, part in needed):
            if missing:
                raise KeyError(min(missing))
        record["layers"][record["best"]]
    protocol = PAPER | {"refit": False} | values.get("protocol", {})
    return {"step": 0, "data": "", "limit": None} | values | {"protocol": protocol}


def _weights(checkpoints: Path) -> Weights | None:
    found = checkpoint.newest(checkpoints, groups=("model",)).checkpoint
    if found is None:
        return None
    tensors = found.tensors["model"]
    fixed = [tensor for name, tensor in tensors.items() if name.endswith("codec.fixed")]
    real = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
    learnt = [tensor for name, tensor in real.items() if not re.search(FIXED, name)]
    return Weights(
        step=int(found.records["state"]["step"]),
        parameters=sum(tensor.numel() for tensor in learnt),
        colours=fixed[0] / ONE if fixed else None,
    )
