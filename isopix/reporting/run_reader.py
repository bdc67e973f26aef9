"""Read a run folder once into a `RunRecord`; files that cannot be read are listed in it."""

import io
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from PIL import Image

from isopix.analysis.auroc import AUROC
from isopix.analysis.run import registered_analyses
from isopix.analysis.scores import Summary
from isopix.codecs.palette import stored_colors
from isopix.core.config import from_dict
from isopix.core.measurement import Measurement
from isopix.core.text import printable
from isopix.finetuning.results import EvaluationResult
from isopix.generate.results import CompletionResult, PictureResult, ReconstructionResult, SampleResult
from isopix.probing.results import LowDataResult, ProbeResult
from isopix.recipes.recipe import Recipe
from isopix.reporting.run_record import (
    DataSample,
    RunRecord,
    SavedAnalysis,
    SavedEvaluation,
    SavedImage,
    SavedLowData,
    SavedMetrics,
    SavedProbe,
    SavedScores,
    Values,
    Weights,
)
from isopix.runs.verification import VerificationResult
from isopix.storage import checkpoint, log
from isopix.storage.arrays import read_arrays
from isopix.storage.atomic import read_json
from isopix.storage.checkpoint import Checkpoint
from isopix.storage.result import Result
from isopix.storage.run_folder import RunFolder

T = TypeVar("T")
PICTURES: dict[str, type[PictureResult]] = {
    "sample": SampleResult,
    "complete": CompletionResult,
    "reconstruct": ReconstructionResult,
}
FIXED_TENSORS = (".normals",)  # ends of the names of tensors that are drawn once and not trained
UNREGISTERED = (
    "No analysis of this name is registered; load the plugin that computed it to see its figure."
    " The numbers are in analysis/{}."
)


def read_run(run: RunFolder) -> RunRecord:
    """Read a run folder. Raises ValueError if its recipe is not JSON."""
    reader = _Reader()
    settings = _json(run.recipe)
    verified = sorted(run.probes.glob("verify-*.json"))
    evaluated = sorted(run.evaluations.glob("*.json"))
    probed = sorted(set(run.probes.glob("*.json")) - set(verified))
    return RunRecord(
        path=run.path,
        settings=settings,
        recipe=reader.read(run.recipe, lambda path: from_dict(Recipe, settings)),
        environment=reader.read(run.environment, _json) or {},
        log=reader.records(run.log),
        weights=reader.read(run.checkpoints, _weights),
        data=reader.read(run.data_sample, _data_sample),
        images=sorted(reader.each(sorted(run.samples.glob("*.json")), _image), key=_image_age),
        probes=sorted(reader.each(probed, _probe), key=lambda each: each.age),
        verifications=reader.each(verified, VerificationResult.read),
        evaluations=sorted(reader.each(evaluated, _evaluation), key=lambda each: each.age),
        low_data=sorted(
            reader.each(sorted(run.low_data.glob("*.json")), _low_data), key=lambda each: each.age
        ),
        scores=sorted(
            reader.each(sorted(run.scores.glob("*/scores.json")), _scores), key=lambda each: each.age
        ),
        analyses=reader.each(_analysis_files(run.analysis), _analysis),
        problems=reader.problems,
    )


def read_run_or_model(path: Path) -> RunRecord:
    """Read a run folder or a saved model. Raises ValueError for what is neither or is damaged."""
    if not (path / checkpoint.MANIFEST).is_file():
        return read_run(RunFolder.open(path))
    found = checkpoint.load_checkpoint(path, ("model",))
    imported = {key: each for key, each in found.records.get("imported", {}).items() if key != "tensors"}
    return RunRecord(
        path=path,
        settings=found.records["recipe"],
        recipe=from_dict(Recipe, found.records["recipe"]),
        environment={**found.records.get("environment", {}), **imported},
        weights=_weights_of(found),
    )


class _Reader:
    """Reads files and collects the problems."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read(self, path: Path, parse: Callable[[Path], T]) -> T | None:
        """Return what `parse` makes of a file; None if it is missing or cannot be read."""
        if not path.exists():
            return None
        try:
            return parse(path)
        # Values of another type than expected raise TypeError, or AttributeError for a missing method.
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, OSError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            self.problems.append(f"{path.name}: {' '.join(reason.split())}")
            return None

    def each(self, paths: list[Path], parse: Callable[[Path], T]) -> list[T]:
        """Return all that can be read."""
        return [found for path in paths if (found := self.read(path, parse)) is not None]

    def records(self, path: Path) -> list[Values]:
        """Return the lines of a log that can be read."""
        records, bad = self.read(path, log.read_valid_records) or ([], [])
        if bad:
            lines = f"line {bad[0]} is" if len(bad) == 1 else f"{len(bad)} lines, the first is {bad[0]}, are"
            self.problems.append(f"{path.name}: {lines} not a record")
        return records


def _image_age(image: SavedImage) -> tuple[int, str]:
    return image.result.step, str(image.result.call.get("written", ""))


def _json(path: Path) -> Values:
    try:
        return read_json(path)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _png(path: Path) -> bytes:
    png = path.read_bytes()
    try:
        with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
            image.load()
    except Exception as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from None
    return png


def _image(path: Path) -> SavedImage:
    result = PICTURES[_json(path)["call"]["verb"]].read(path)
    return SavedImage(_png(path.with_suffix(".png")), result)


def _scores(path: Path) -> SavedScores:
    values, picture = _json(path), path.with_name("surprise.png")
    other = values.get("against") or {"data": "", "scores": {}}
    return SavedScores(
        **_facts(SavedMetrics, values),
        split=str(values["split"]),
        scores=_named(Summary, values["scores"]),
        against_data=str(other["data"]),
        against=_named(Summary, other["scores"]),
        auroc=_named(AUROC, values["auroc"]),
        maps=_png(picture) if picture.exists() else b"",
    )


def _named(kind: type[T], values: Values) -> dict[str, T]:
    """Return records by name. Raises ValueError for another type of a field."""
    return {name: from_dict(kind, each) for name, each in values.items()}


def _data_sample(path: Path) -> DataSample:
    arrays = read_arrays(path)
    images, labels, classes, counts = (arrays[name] for name in ("images", "labels", "classes", "counts"))
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1] != 3 or len(labels) != len(images):
        raise ValueError(f"images are {images.dtype} {list(images.shape)} with {len(labels)} labels")
    if counts.shape != (len(classes), 3) or not all(-1 <= each < len(classes) for each in labels.tolist()):
        raise ValueError("labels and classes do not fit")
    names = [printable(str(each)) for each in classes]
    return DataSample(torch.from_numpy(images), labels.tolist(), names, counts.tolist())


def _probe(path: Path) -> SavedProbe:
    found = ProbeResult.read(path)
    return SavedProbe(report=found, data=found.data, step=found.step, **_written(found))


def _written(found: Result) -> Values:
    written = {name: found.call[name] for name in ("written", "command", "folder")}
    return {**written, "measurement": found.measurement}


def _evaluation(path: Path) -> SavedEvaluation:
    found = EvaluationResult.read(path)
    written = {name: found.call[name] for name in ("written", "command", "folder")}
    facts = {name: getattr(found, name) for name in ("metrics", "data", "step", "measurement")}
    return SavedEvaluation(masks=found.mask_ensemble, **facts, **written)


def _low_data(path: Path) -> SavedLowData:
    found = LowDataResult.read(path)
    return SavedLowData(result=found, data=found.data, step=found.step, **_written(found))


def _facts(cls: type[SavedMetrics], values: Values) -> Values:
    """Return the fields of a class that are values in its file; null is the same as absent."""
    names = {each.name for each in fields(cls)} - {"metrics"}
    facts = {name: values[name] for name in names if values.get(name) is not None}
    if "measurement" in facts:
        facts["measurement"] = Measurement.from_dict(facts["measurement"])
    return facts


def _analysis_files(folder: Path) -> list[Path]:
    """Return the files of saved analyses: the registered ones in their order, then the others."""
    names = dict.fromkeys([*registered_analyses(), *sorted(path.stem for path in folder.glob("*.json"))])
    return [folder / f"{name}.json" for name in names]


def _analysis(path: Path) -> SavedAnalysis:
    numbers, analysis = _json(path), registered_analyses().get(path.stem)
    if analysis is None:
        return SavedAnalysis(path.stem, numbers, None, UNREGISTERED.format(path.name))
    caption = f"{analysis.caption(numbers)} Step {numbers['step']:,}."
    return SavedAnalysis(analysis.label(), numbers, analysis.figure(numbers), caption)


def _weights(checkpoints: Path) -> Weights | None:
    found = checkpoint.load_latest(checkpoints, ("model",)).checkpoint
    return None if found is None else _weights_of(found)


def _weights_of(found: Checkpoint) -> Weights:
    tensors = found.tensors["model"]
    fixed = {name for name in tensors if name.endswith(FIXED_TENSORS)}
    trained = [each for name, each in tensors.items() if each.is_floating_point() and name not in fixed]
    return Weights(
        step=int(found.records["state"]["step"]),
        parameters=sum(tensor.numel() for tensor in trained),
        colors=stored_colors(tensors),
        classes=len(found.records["state"]["classes"]),
    )
