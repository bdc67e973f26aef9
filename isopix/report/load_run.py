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

from isopix.codecs.nearest_color import ONE
from isopix.plots.analyses import DRAW
from isopix.report.captions import caption
from isopix.storage import checkpoint, log
from isopix.storage.checkpoint import Checkpoint
from isopix.storage.run_folder import RunFolder

T = TypeVar("T")
Values = dict[str, Any]
RECORD = {"layers", "best", "classes", "majority", "images", "warnings"}  # of transfer.evidence
# How iGPT reads a network (section 2.4) and tells classes (section 3.4).
PAPER: Values = {
    "stream": "n",
    "pool": "mean",
    "reading": "paper",
    "method": {"kind": "lbfgs"},
    "masks": 0,
}
FIXED = r"stem\.features\.normals$"  # drawn once and saved, but not learned
EVERY = ("all", "best5")  # layers: all of them were there to choose from
VERDICT = {"data", "images", "masks", "accuracy", "low", "high", "class_nats", "top5", "ensemble"}
SCORE = {"layer", "test", "low", "high", "validation"}


@dataclass(frozen=True)
class Drawing:
    """A picture in `samples/`, and what was kept beside it."""

    name: str
    png: bytes
    facts: Values


@dataclass(frozen=True)
class Analysis:
    """One of `isopix analyse`: its numbers, and these drawn and told."""

    name: str
    numbers: Values
    figure: Any
    caption: str


@dataclass(frozen=True)
class Weights:
    """What the newest intact checkpoint holds."""

    step: int
    parameters: int
    colours: Float[Tensor, "K 3"] | None  # levels of 0..255; None for a codec without a palette
    classes: int = 0  # of a fine-tuned run


@dataclass(frozen=True)
class Gathered:
    """A run: `drawings`, `probes`, `verifications` and `evaluations` by step, the newest last; `unreadable`
    names damaged files and why.
    """

    path: Path
    recipe: Values
    environment: Values = field(default_factory=dict)
    records: list[Values] = field(default_factory=list)
    weights: Weights | None = None
    drawings: list[Drawing] = field(default_factory=list)
    probes: list[Values] = field(default_factory=list)
    verifications: list[Values] = field(default_factory=list)
    evaluations: list[Values] = field(default_factory=list)
    analyses: list[Analysis] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def imported(self) -> str:
        """Where somebody else's model was imported from; empty for a run of ours."""
        return str(self.environment.get("imported") or "")

    @property
    def probe(self) -> Values | None:
        """The probe that speaks for the run: the newest that is as the paper's, or else the newest."""
        return next(reversed([probe for probe in self.probes if as_paper(probe)] or self.probes), None)


def as_paper(probe: Values) -> bool:
    """Whether a probe chose among all layers, read them and told classes as the paper does."""
    protocol = probe["protocol"]
    return protocol["layers"] in EVERY and all(protocol[key] == PAPER[key] for key in PAPER)


def gather(run: RunFolder) -> Gathered:
    """Read a run folder; raises ValueError if its recipe cannot be read."""
    reader = _Reader()
    recipe = _json(run.recipe)
    drawings = [reader.read(path, _drawing) for path in sorted(run.samples.glob("*.json"))]
    verified = sorted(run.probes.glob("verify-*.json"))
    probed = sorted(set(run.probes.glob("*.json")) - set(verified))
    probes = [reader.read(path, _probe) for path in probed]
    verifications = [reader.read(path, _verification) for path in verified]
    evaluations = [reader.read(path, _evaluation) for path in sorted(run.evaluations.glob("*.json"))]
    analyses = [reader.read(run.analysis / f"{name}.json", _analysis) for name in DRAW]
    return Gathered(
        path=run.path,
        recipe=recipe,
        environment=reader.read(run.environment, _json) or {},
        records=reader.records(run.log),
        weights=reader.read(run.checkpoints, _weights),
        drawings=sorted((each for each in drawings if each), key=lambda each: _age(each.facts)),
        probes=sorted((each for each in probes if each), key=_age),
        verifications=sorted((each for each in verifications if each), key=_age),
        evaluations=sorted((each for each in evaluations if each), key=_age),
        analyses=[each for each in analyses if each],
        unreadable=reader.unreadable,
    )


def gather_any(path: Path) -> Gathered:
    """Read a run folder, or what a saved model, which has no run, tells of itself. Raises ValueError for what
    is neither or is damaged.
    """
    if not (path / checkpoint.MANIFEST).is_file():
        return gather(RunFolder.open(path))
    found = checkpoint.load(path, ("model",))
    imported = {key: each for key, each in found.records.get("imported", {}).items() if key != "tensors"}
    return Gathered(
        path=path,
        recipe=found.records["recipe"],
        environment={**found.records.get("environment", {}), **imported},
        weights=_weights_of(found),
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
        # Values of another kind than expected raise TypeError, or AttributeError where a method is asked for.
        except (ValueError, LookupError, TypeError, AttributeError, OSError) as error:
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
        joined = record.setdefault("joined", None)  # earlier versions joined nothing
        _require(RECORD, record)
        for score in (*record["layers"], *([joined["score"]] if joined else [])):
            _require(SCORE, score)
        record["layers"][record["best"]]
    if values.get("folded"):
        _require(SCORE, values["folded"])
    protocol = PAPER | {"layers": "all"} | values.get("protocol", {})
    protocol["method"]["kind"]
    return {"step": 0, "data": "", "limit": None, "folded": None} | values | {"protocol": protocol}


def _require(names: set[str], part: Values) -> None:
    if missing := names - part.keys():
        raise KeyError(min(missing))


def _verification(path: Path) -> Values:
    """A test loss as `isopix verify` found it."""
    values = _json(path)
    facts = {"loss_nats": float(values["loss_nats"]), "images": int(values["images"])}
    return values | facts | {"data": str(values["data"])}


def _evaluation(path: Path) -> Values:
    """A verdict as `isopix evaluate` found it."""
    values = _json(path)
    _require(VERDICT, values)
    _require({"single", "mean_probability"}, values["ensemble"])
    return values


def _analysis(path: Path) -> Analysis:
    values = _json(path)
    return Analysis(path.stem, values, DRAW[path.stem](values), caption(path.stem, values))


def _weights(checkpoints: Path) -> Weights | None:
    found = checkpoint.newest(checkpoints, groups=("model",)).checkpoint
    return None if found is None else _weights_of(found)


def _weights_of(found: Checkpoint) -> Weights:
    tensors = found.tensors["model"]
    fixed = [tensor for name, tensor in tensors.items() if name.endswith("codec.fixed")]
    real = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
    learnt = [tensor for name, tensor in real.items() if not re.search(FIXED, name)]
    return Weights(
        step=int(found.records["state"]["step"]),
        parameters=sum(tensor.numel() for tensor in learnt),
        colours=fixed[0] / ONE if fixed else None,
        classes=len(found.records["state"].get("classes", ())),
    )
