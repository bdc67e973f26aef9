"""Few labels: the test errors of probes and fine-tuning by labels per class."""

from isopix.probing.baselines import PIXEL_COMPONENTS, RAW_PIXELS, baseline_title
from isopix.probing.low_data import LowDataResult
from isopix.reporting.run_record import RunRecord, SavedLowData
from isopix.reporting.section import NUMBER, Panel, Row, Section, Table, Text, join_words, percent

TRAINED = "trained"  # the run's own probe, in bold


def low_data_section(run: RunRecord) -> Section | None:
    """Return a table for each measurement with few labels; None without any."""
    panels = [_panel(each) for each in run.low_data]
    return Section("Few labels", panels) if panels else None


def _panel(saved: SavedLowData) -> Panel:
    """Return test errors, with a column for each number of labels per class."""
    first = next(iter(saved.results.values()))
    counts = [f"{each.labels_per_class} ({each.num_train_images:,})" for each in first]
    columns = [("labels per class (total)", ""), ("layer", NUMBER), *((count, NUMBER) for count in counts)]
    rows = [
        Row(
            [baseline_title(method, found[0].num_features), _layers(method, found), *map(_error, found)],
            "run" * (method == TRAINED),
        )
        for method, found in saved.results.items()
    ]
    count = len(first[0].errors)
    subsets = f"mean ± standard deviation over {count} random balanced subsets"
    notes = [
        f"Test error on {saved.data}, {first[0].num_test_images:,} images:"
        f" {subsets if count > 1 else '1 random balanced subset'} of the training images. {_selection(saved)}"
    ]
    if saved.measurement:
        notes.append(f"{saved.measurement.line}.")
    return Panel(tables=[Table(columns, rows)], notes=notes)


def _layers(method: str, found: list[LowDataResult]) -> str:
    """Return the layers of all columns; empty for fine-tuning and for raw pixels."""
    if method in (RAW_PIXELS, PIXEL_COMPONENTS):
        return ""
    return ", ".join(map(str, sorted({layer for each in found for layer in each.layers})))


def _error(found: LowDataResult) -> Text:
    spread = f" ± {100 * found.std:.1f}" if len(found.errors) > 1 else ""
    return f"{percent(found.mean)}{spread}"


def _selection(saved: SavedLowData) -> str:
    """Return which images chose layer, L2 penalty and step."""
    if saved.select != "validation":
        return "Layer and L2 penalty: cross-validation within the labeled images."
    counts = {name: found[0].num_selection_images for name, found in saved.results.items()}
    used = join_words([f"{count:,}" for count in dict.fromkeys(counts.values()) if count])
    fixed = [name for name, count in counts.items() if not count]
    note = f"; {join_words(fixed)}: fixed number of steps" if fixed else ""
    return f"Layer, L2 penalty and step: chosen on {used} labeled validation images{note}."
