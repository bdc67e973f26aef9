"""The training of a run: its losses and accuracies by step, beside baselines, and what it has cost."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from isopix.core.config import from_dict
from isopix.core.measurement import Measurement
from isopix.core.stats import wilson_interval
from isopix.core.table import Table
from isopix.core.text import format_bytes
from isopix.plots import curves, svg
from isopix.plots.curves import probe_points
from isopix.recipes.cost import recipe_cost
from isopix.reporting.run_record import RunRecord, Values
from isopix.reporting.section import Chart, Panel, Section, join_words, missing, page_table, percent
from isopix.runs.results import VerificationResult
from isopix.train.evaluator import HeldOutLoss
from isopix.train.stopping import best_evaluation

PREFIXES = ("", "k", "M", "G", "T", "P", "E")
PEAK, JOULES, JOULES_PER_WH = "peak_memory_bytes", "energy_joules", 3600


class MeanLoss(NamedTuple):
    """The newest mean loss on images outside of training; `where` says which."""

    nats: float
    split: str
    where: str
    own: bool = True  # images of the run, as those of its baselines
    images_hash: str = ""

    @property
    def bits(self) -> float:
        return self.nats / math.log(2)


class FineTuneAccuracy(NamedTuple):
    """The test accuracy of a fine-tuned run with its 95 % interval, after `step` steps."""

    accuracy: float
    low: float
    high: float
    images: int
    step: int
    measurement: Measurement | None = None


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
    """Return the test loss, or else the newest validation loss, or else that of `isopix verify` on the most
    images. It is that of codes, or of classes where only they are learned.
    """
    name = loss_key(run)
    for split in ("test", "validation"):
        logged = [each for each in run.log if each.get("split") == split and name in each]
        if logged:
            measured = _measurement(run, logged[-1])
            where = measured.count if measured else f"{logged[-1]['images']:,} {split} images"
            images_hash = measured.images_hash if measured else ""
            return MeanLoss(float(logged[-1][name]), split, where, images_hash=images_hash)
    verified = max(run.of(VerificationResult), key=lambda each: each.images, default=None)
    if verified is None or not run.predicts_codes:
        return None
    where = verified.measurement.count if verified.measurement else f"{verified.images:,} test images"
    return MeanLoss(verified.loss_nats, "test", where, own=False)


def _measurement(run: RunRecord, record: Values) -> Measurement | None:
    """Return the measurement record of an evaluation in the log; on validation, that of its evaluator."""
    evaluators = (each for each in run.log if each.get("evaluator") == HeldOutLoss.kind)
    found = next(evaluators, {}) if record["split"] == "validation" else record
    return from_dict(Measurement, found["measurement"]) if "measurement" in found else None


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


def num_steps(run: RunRecord) -> int:
    """Return the number of training steps."""
    return max((each["step"] for each in run.log), default=run.weights.step if run.weights else 0)


def images_seen(run: RunRecord) -> int:
    """Return the number of training images, repetitions included; without a log by the weights' step."""
    logged = [int(each["images"]) for each in run.log if each["kind"] == "train"]
    unlogged = run.weights.step * run.recipe.train.batch_size if run.weights and run.recipe else 0
    return max(logged, default=unlogged)


def finetune_accuracy(run: RunRecord) -> FineTuneAccuracy | None:
    """Return the test accuracy of a fine-tuned run; None before its test evaluation."""
    tested = [each for each in run.log if each.get("split") == "test" and "accuracy" in each]
    if not tested:
        return None
    last = tested[-1]
    accuracy, count = float(last["accuracy"]), int(last["images"])
    low, high = last.get("interval") or wilson_interval(accuracy, count)
    return FineTuneAccuracy(accuracy, low, high, count, last["step"], _measurement(run, last))


def loss_section(run: RunRecord, name: str, path: str) -> Section:
    """Return the loss by step, the newest held-out loss, and those of predictions without learning."""
    key, unit = loss_key(run), loss_unit(run)
    loss, classes, baselines = held_out_loss(run), uniform_classes(run), baseline_losses(run)
    logged = [each for each in run.log if key in each]
    if not loss and not logged:
        verb = "verify" if run.imported_from else "resume"
        return Section("Loss", [Panel(notes=[missing("No loss yet:", f"isopix {verb} {path}")])])
    rows = [(f"{loss.split}, {loss.where}", loss.nats)] if loss else []
    rows += [(f"uniform prediction of {classes:,} values", math.log(classes))] if classes else []
    rows += list(baselines.items())
    cells = [(title, f"{nats:.3f}", f"{nats / math.log(2):.3f}") for title, nats in rows]
    table = page_table(Table(f"Loss per {unit}, lower is better", ["loss", "nats", "bits"], cells))
    if not logged:
        return Section("Loss", [Panel(tables=[table])])
    lowest = min(baselines, key=lambda each: baselines[each], default="unigram")
    lines = {each: baselines[each] for each in (lowest, "unigram") if each in baselines}
    figure = curves.plot_loss(run.log, classes, unit=unit, loss_key=key, baselines=lines)
    caption = f"Loss by step, in nats (left) and bits (right) per {unit}, from log.jsonl."
    chart = Chart(svg.svg_markup(figure, logged, name=name, alt=caption), caption)
    return Section("Loss", [Panel([chart], [table])], "pair")


def finetuning_section(run: RunRecord, name: str, path: str) -> Section | None:
    """Return the accuracy of a fine-tuned run by step; None for others, and before the first evaluation."""
    seen = [each for each in run.log if each["kind"] == "evaluation" and "accuracy" in each]
    if run.recipe is None or run.recipe.finetune is None or not seen:
        return None
    settings, found = run.recipe.finetune, finetune_accuracy(run)
    best = best_evaluation(seen) if settings.early_stops else None
    figure = curves.plot_finetuning_accuracy(seen, run.environment.get("majority"), best=best)
    caption = f"Accuracy by step; loss {settings.label()}."
    if best:
        caption += f" Ring: best step on validation images, {best['step']:,}, {percent(best['accuracy'])}."
    if selected := run.environment.get("selected"):
        caption += f" Refit on train + validation for {selected['step']:,} steps."
    chart = Chart(svg.svg_markup(figure, seen, name=name, alt=caption), caption)
    if found is None:
        command = missing("Not evaluated on test images yet:", f"isopix resume {path}")
        return Section("Fine-tuning", [Panel([chart], notes=[command])], "pair")
    baselines = found.measurement.baselines if found.measurement else {}
    bounds = f"{percent(found.accuracy)} ({percent(found.low)} to {percent(found.high)})"
    rows = [("test accuracy (95 % CI)", bounds), *((each, percent(x)) for each, x in baselines.items())]
    line = found.measurement.line if found.measurement else f"{found.images:,} test images"
    table = Table(f"Step {found.step:,}, {line}", ["metric", "value"], rows)
    return Section("Fine-tuning", [Panel([chart], [page_table(table)])], "pair")


def probe_curve(runs: Mapping[str, RunRecord], name: str) -> Chart | None:
    """Return probe accuracy during training against the validation loss, a line per run.

    None where fewer than two of several runs were probed at two steps or more, or where their images differ.
    """
    probed = {run: probe_points(record.log) for run, record in runs.items()}
    lines = {run: line for run, line in probed.items() if sum(point.step > 0 for point in line) > 1}
    if len(lines) < min(2, len(runs)) or len({_images(runs[run]) for run in lines}) > 1:
        return None
    unit = " or ".join(dict.fromkeys(loss_unit(runs[run]) for run in lines))
    counts = sorted(
        {each["probe_images"] for run in lines for each in runs[run].log if "probe_images" in each}
    )
    images = join_words([f"{count:,}" for count in counts])
    caption = (
        f"Linear-probe accuracy of the best layer during training, on {images} validation images other than"
        " those that chose the layer. Bars: 95\u00a0% intervals; ρ: Spearman’s rank correlation; ring: last"
        " step; dashed: untrained network."
    )
    numbers = {run: [point._asdict() for point in line] for run, line in lines.items()}
    figure = curves.plot_accuracy_vs_loss(lines, unit=unit)
    return Chart(svg.svg_markup(figure, numbers, name=name, alt=caption), caption)


def _images(run: RunRecord) -> str:
    """Return the settings that decide which images the accuracies are of, but for the seed."""
    data = run.settings.get("data", {})
    return json.dumps([data.get(key) for key in ("source", "holdout", "limit")])


def training_cost(run: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield images, time, computation, memory and energy of training, without what was not measured."""
    train = [each for each in run.log if each["kind"] == "train"]
    seconds, seen = max((each["seconds"] for each in train), default=0.0), images_seen(run)
    hours, minutes = divmod(round(seconds / 60), 60)
    yield "images seen", f"{seen:,}"
    yield (
        "training time",
        f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s",
    )
    if seconds:
        yield "images per second", f"{seen / seconds:,.3g}"
    if run.recipe and run.recipe.finetune is None and seen:
        flops = seen * recipe_cost(run.recipe).training_flops
        power = min(6, int(math.log10(flops)) // 3)
        yield "computation", f"{flops / 1000**power:.3g} {PREFIXES[power]}FLOP"
    on_gpu = str(run.environment.get("device", "")).startswith("cuda")
    if peak := max((each.get(PEAK, 0) for each in run.log), default=0):
        yield f"peak {'GPU memory' if on_gpu else 'memory of the process'}", format_bytes(peak)
    if train and all(JOULES in each for each in train):
        spent = max(each[JOULES] for each in train) / JOULES_PER_WH
        of = "of the GPU" if on_gpu else "of the machine's processors"
        yield f"energy {of}", f"{spent / 1000:.3g} kWh" if spent >= 1000 else f"{spent:.3g} Wh"
