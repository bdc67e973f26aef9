"""The training of a run: its losses and accuracies by step, beside baselines, and what it has cost."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from isopix.core.config import from_dict
from isopix.core.stats import wilson_interval
from isopix.core.text import Table, format_bytes, format_duration
from isopix.plots import curves
from isopix.recipes.cost import recipe_cost
from isopix.reporting.run_record import RunRecord, Values
from isopix.reporting.section import Chart, Panel, Section, figure_chart, join_words, missing
from isopix.runs.results import LossResult
from isopix.runs.training_log import validation_measurement
from isopix.storage.result import Measurement
from isopix.train.stopping import best_evaluation


class MeanLoss(NamedTuple):
    """The newest mean loss on images outside of training; `own` ones are the images of its baselines, too."""

    nats: float
    split: str
    measurement: Measurement
    own: bool = True


class FineTuneAccuracy(NamedTuple):
    """The test accuracy of a fine-tuned run with its 95% interval, after `step` steps."""

    accuracy: float
    low: float
    high: float
    step: int
    measurement: Measurement


def loss_key(run: RunRecord) -> str:
    """Return the name of the loss in the log: that of codes, or of classes where only they are learned."""
    return "loss_nats" if run.predicts_codes else "class_nats"


def loss_unit(run: RunRecord) -> str:
    """Return what a loss is averaged over, as `masked pixel`; `image` if only classes are learned."""
    if not run.predicts_codes:
        return "image"
    if run.recipe is None:
        return "predicted code"
    return f"{'' if run.recipe.objective.can_sample else 'masked '}{run.recipe.model.codec.unit()}"


def held_out_loss(run: RunRecord) -> MeanLoss | None:
    """Return the test loss, else the newest validation loss, else that of `isopix evaluate`."""
    name = loss_key(run)
    for split in ("test", "validation"):
        logged = [each for each in run.log if each.get("split") == split and name in each]
        if logged and (measured := logged[-1].get("measurement") or validation_measurement(run.log)):
            return MeanLoss(float(logged[-1][name]), split, from_dict(Measurement, measured))
    evaluated = max(run.of(LossResult), key=lambda each: each.images, default=None)
    if evaluated is None or evaluated.measurement is None or not run.predicts_codes:
        return None
    return MeanLoss(evaluated.loss_nats, "test", evaluated.measurement, own=False)


def baseline_losses(run: RunRecord) -> dict[str, float]:
    """Return the losses of learning-free baselines on the split of the held-out loss, in nats."""
    loss = held_out_loss(run)
    logged = (each for each in run.log if each["kind"] == "baselines")
    found = next((each for each in logged if loss and loss.own and each["held_out"] == loss.split), {})
    return dict(found.get("nats", {}))


def uniform_classes(run: RunRecord) -> int | None:
    """Return the number of values of a uniform prediction, codes or classes; None for a regression."""
    if not run.predicts_codes:
        return (run.weights.classes if run.weights else 0) or None
    if run.recipe is None or not run.recipe.model.head.categorical:
        return None
    return run.recipe.model.codec.placeholder(run.recipe.grid).vocab_size


def finetune_accuracy(run: RunRecord) -> FineTuneAccuracy | None:
    """Return the test accuracy of a fine-tuned run; None before its test evaluation."""
    tested = [each for each in run.log if each.get("split") == "test" and "accuracy" in each]
    if not tested:
        return None
    last = tested[-1]
    low, high = last.get("interval") or wilson_interval(last["accuracy"], last["images"])
    measured = from_dict(Measurement, last["measurement"])
    return FineTuneAccuracy(last["accuracy"], low, high, last["step"], measured)


def loss_section(run: RunRecord, name: str, path: str) -> Section:
    """Return the loss by step, the newest held-out loss, and those of predictions without learning."""
    key, unit = loss_key(run), loss_unit(run)
    loss, classes, baselines = held_out_loss(run), uniform_classes(run), baseline_losses(run)
    logged = [each for each in run.log if key in each]
    if not loss and not logged:
        verb = "evaluate" if run.imported_from else "resume"
        return Section("Loss", [Panel(notes=[missing("No loss yet:", f"isopix {verb} {path}")])])
    rows = {f"{loss.split}, {loss.measurement.count}": loss.nats} if loss else {}
    rows |= {f"uniform prediction of {classes:,} values": math.log(classes)} if classes else {}
    cells = [(each, f"{nats:.3f}", f"{nats / math.log(2):.3f}") for each, nats in (rows | baselines).items()]
    table = Table(f"Loss per {unit}, lower is better", ["loss", "nats", "bits"], cells)
    if not logged:
        return Section("Loss", [Panel(tables=[table])])
    lowest = min(baselines, key=lambda each: baselines[each], default="unigram")
    lines = {each: baselines[each] for each in (lowest, "unigram") if each in baselines}
    figure = curves.plot_loss(run.log, classes, unit=unit, loss_key=key, baselines=lines)
    caption = f"Loss by step, in nats (left) and bits (right) per {unit}, from log.jsonl."
    if curves.probe_points(run.log):
        caption += " Below: accuracy of a linear probe on validation images, with its 95% interval."
    chart = figure_chart(figure, _thinned(logged, key), name, caption)
    return Section("Loss", [Panel([chart], [table])], "pair")


def _thinned(records: Sequence[Values], key: str) -> list[Values]:
    """Return the records that are drawn of the curve of each kind and split."""
    names = np.array([f"{each['kind']} {each.get('split')}" for each in records])
    values = np.array([each[key] for each in records])
    found = [np.flatnonzero(names == name) for name in np.unique(names)]
    shown = np.concatenate([curve[curves.thin(values[curve])] for curve in found])
    return [records[index] for index in np.sort(shown)]


def finetuning_section(run: RunRecord, name: str, path: str) -> Section | None:
    """Return the accuracy of a fine-tuned run by step; None for others, and before the first evaluation."""
    seen = [each for each in run.log if each["kind"] == "evaluation" and "accuracy" in each]
    if run.recipe is None or run.recipe.finetune is None or not seen:
        return None
    settings, found = run.recipe.finetune, finetune_accuracy(run)
    best = best_evaluation(seen) if run.recipe.selects_step else None
    shown = _thinned(seen, "accuracy")
    figure = curves.plot_finetuning_accuracy(shown, run.environment.get("majority"), best=best)
    caption = f"Accuracy by step; loss {settings.label()}."
    if best:
        caption += f" Ring: best step on validation images, {best['step']:,}, {best['accuracy']:.1%}."
    if selected := run.environment.get("selected"):
        caption += f" Refit on train + validation for {selected['step']:,} steps."
    chart = figure_chart(figure, shown, name, caption)
    if found is None:
        command = missing("Not evaluated on test images yet:", f"isopix resume {path}")
        return Section("Fine-tuning", [Panel([chart], notes=[command])], "pair")
    bounds = f"{found.accuracy:.1%} ({found.low:.1%} to {found.high:.1%})"
    baselines = [(each, f"{accuracy:.1%}") for each, accuracy in found.measurement.baselines.items()]
    rows = [("test accuracy (95% CI)", bounds), *baselines]
    table = Table(f"Step {found.step:,}, {found.measurement.line}", ["metric", "value"], rows)
    return Section("Fine-tuning", [Panel([chart], [table])], "pair")


def probe_curve(runs: Mapping[str, RunRecord], name: str) -> Chart | None:
    """Return probe accuracy against the validation loss; None without two steps or with different images."""
    probed = {run: curves.probe_points(record.log) for run, record in runs.items()}
    lines = {run: line for run, line in probed.items() if sum(point.step > 0 for point in line) > 1}
    if len(lines) < min(2, len(runs)) or len({_images(runs[run]) for run in lines}) > 1:
        return None
    unit = " or ".join(dict.fromkeys(loss_unit(runs[run]) for run in lines))
    counts = {each["probe_images"] for run in lines for each in runs[run].log if "probe_images" in each}
    caption = (
        f"Linear-probe accuracy of the best layer during training, on"
        f" {join_words([f'{count:,}' for count in sorted(counts)])} validation images other than those that"
        " chose the layer. Bars: 95% intervals; ring: last step; dashed: untrained network."
    )
    numbers = {run: [point._asdict() for point in line] for run, line in lines.items()}
    return figure_chart(curves.plot_accuracy_vs_loss(lines, unit=unit), numbers, name, caption)


def _images(run: RunRecord) -> str:
    """Return the settings that decide which images the accuracies are of, but for the seed."""
    return json.dumps([run.settings.get("data", {}).get(key) for key in ("source", "holdout", "limit")])


def training_cost(run: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield images, time, computation and memory of training, without what was not measured."""
    train = [each for each in run.log if each["kind"] == "train"]
    seconds, seen = max((each["seconds"] for each in train), default=0.0), run.images_seen
    yield "images seen", f"{seen:,}"
    if seconds:
        yield "training time", format_duration(seconds)
        yield "images per second", f"{seen / seconds:,.3g}"
    if run.recipe and run.recipe.finetune is None and seen:
        yield "computation", f"{seen * recipe_cost(run.recipe).training_flops:.3g} FLOP"
    on_gpu = str(run.environment.get("device", "")).startswith("cuda")
    if peak := max((each.get("peak_memory_bytes", 0) for each in run.log), default=0):
        yield f"peak {'GPU memory' if on_gpu else 'memory of the process'}", format_bytes(peak)
