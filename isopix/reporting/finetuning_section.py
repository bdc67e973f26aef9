"""Fine-tuning: accuracy by step, test metrics, and the evaluations under masks."""

from collections.abc import Mapping
from typing import Any

from isopix.finetuning.config import FineTuneConfig
from isopix.plots import curves, svg
from isopix.recipes.recipe import Recipe
from isopix.reporting.metrics import finetune_accuracy
from isopix.reporting.run_record import RunRecord, SavedEvaluation
from isopix.reporting.section import (
    NUMBER,
    Chart,
    Panel,
    Row,
    Section,
    Table,
    Text,
    interval,
    missing,
    percent,
)
from isopix.reporting.settings_section import last_path_part
from isopix.train.stopping import best_evaluation

Values = Mapping[str, Any]

COLUMNS = [
    ("test images", ""),
    *((name, NUMBER) for name in ("images", "masks", "accuracy", "95 %", "one mask", "mean probability")),
    *((name, NUMBER) for name in ("top-5", "cross-entropy, nats")),
]
NOTE = (
    "Accuracy: majority vote over the masks that each image was read under, ties broken at random; compared "
    "with the mean of one mask and with the class of the highest mean probability."
)


def finetuning_section(run: RunRecord, name: str, path: str) -> Section | None:
    """Return the section of a fine-tuned run; None for another run, or before its first evaluation."""
    seen = [each for each in run.log if each["kind"] == "evaluation" and "accuracy" in each]
    if run.recipe is None or run.recipe.finetune is None or not seen:
        return None
    settings = run.recipe.finetune
    best = best_evaluation(seen) if settings.early_stops else None
    drawn = curves.plot_finetuning_accuracy(seen, run.environment.get("majority"), best=best)
    reached = f" Best validation accuracy {best['accuracy']:.1%} at step {best['step']}." if best else ""
    chart = Chart(
        svg.svg_markup(drawn, seen, name=name, alt=f"Accuracy by step.{reached}"),
        _caption(run, settings, best),
    )
    panels = [_metrics(run, run.recipe, settings, path)._replace(charts=[chart])]
    if run.evaluations:
        table = Table(COLUMNS, [_evaluation(each) for each in run.evaluations])
        voted = any(each.masks > 1 for each in run.evaluations)
        panels.append(Panel(tables=[table], notes=[NOTE] if voted else []))
    return Section("Fine-tuning", panels, "pair")


def _metrics(run: RunRecord, recipe: Recipe, settings: FineTuneConfig, path: str) -> Panel:
    found = finetune_accuracy(run)
    if found is None:
        note: Text = missing("Not evaluated on test images yet; to resume:", f"isopix resume {path}")
        if recipe.train.num_test_images == 0:
            note = "Not evaluated on test images: this run selects the number of steps of another."
        return Panel(notes=[note])
    baselines = found.measurement.baselines if found.measurement else {}
    rows = [
        Row(["test accuracy", percent(found.accuracy)], "run"),
        Row(["95 % interval", interval(found.low, found.high)]),
        *(Row([name, percent(accuracy)]) for name, accuracy in baselines.items()),
        Row(["test images", found.images_text]),
        Row(["step of the weights", f"{found.step:,}"]),
        *(Row([name, value]) for name, value in _weights(run, settings.early_stops)),
    ]
    notes = [f"{found.measurement.line}."] if found.measurement else []
    return Panel(tables=[Table([("metric", ""), ("value", NUMBER)], rows)], notes=notes)


def _weights(run: RunRecord, early_stops: bool) -> list[tuple[str, str]]:
    """Return which weights were evaluated."""
    tested = next((each for each in reversed(run.log) if each.get("split") == "test"), {})
    count = tested.get("selection_images")
    on = f" on {count:,} labeled validation images" if count else ""
    chosen = f"best step{on}" if on else "best validation step"
    rows = [("weights", chosen if early_stops else "last step, no early stopping")]
    if selected := run.environment.get("selected"):
        rows = [
            ("weights", f"refit on train + validation for {selected['step']:,} steps"),
            (f"accuracy of that step{on}", percent(selected["validation_accuracy"])),
        ]
    if "train_images" in tested:
        rows.append(("labeled training images", f"{tested['train_images']:,}"))
    return rows


def _evaluation(each: SavedEvaluation) -> Row:
    metrics, several = each.metrics, each.masks > 1
    cells: list[Text] = [
        each.data,
        f"{metrics.num_images:,}",
        str(each.masks or "none"),
        percent(metrics.accuracy),
        interval(*metrics.interval),
        percent(metrics.ensemble.single_mask) if several else "",
        percent(metrics.ensemble.mean_probability) if several else "",
        "" if metrics.top5_accuracy is None else percent(metrics.top5_accuracy),
        f"{metrics.cross_entropy:.3f}",
    ]
    return Row(cells)


def _caption(run: RunRecord, settings: FineTuneConfig, best: Values | None) -> str:
    origin = run.environment.get("pretrained")
    start = (
        f"Fine-tuned from step {origin['step']:,} of {last_path_part(origin['run'])}"
        if origin
        else "Trained from scratch"
    )
    layer = "the last layer" if settings.layer is None else f"layer {settings.layer}"
    ring = f" Ring: best step on validation images, {best['step']:,}." if best else ""
    return f"{start}; loss {settings.label()}; class head on {layer}.{ring}"
