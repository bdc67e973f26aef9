"""`isopix compare`: paired differences of test accuracy between groups of fine-tuned runs."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.api import comparison
from isopix.cli.console import Json, note, say, say_wrapped, show_json, show_table
from isopix.studies.comparison import Comparison

Baseline = Annotated[
    list[str] | None,
    Parameter(
        consume_multiple=True,
        negative="",
        help="Runs to compare with. Default: those from scratch, for the fine-tuned ones of the same group.",
    ),
]
Out = Annotated[Path | None, Parameter(help="JSON file to write.")]


def compare(*groups: str, baseline: Baseline = None, out: Out = None, json: Json = False) -> None:
    """Compare fine-tuned runs with a baseline: paired differences of test accuracy.

    Each run is compared with the one of the same seed, labels and test images. The 95 % interval covers
    other seeds and other draws of the labels; that for new images covers other test images too.

    Example: isopix compare runs/vit-finetuned --baseline runs/vit-scratch

    Parameters
    ----------
    groups
        Folders of runs or quoted patterns ('runs/vit-*'), one for each group; run folders are one group.
    """
    found = comparison.compare(*groups, baseline=baseline, out=out)
    if json:
        show_json(found.record)
        return
    columns = ["runs", "test accuracy", "baseline", "difference (95 % CI)", "on new images"]
    show_table(
        "Paired differences of test accuracy, in points",
        columns,
        [_format_row(each) for each in found.comparisons],
    )
    for each in found.comparisons:
        say_wrapped(_describe(each))
        for text in each.notes:
            note(text)
    if found.path:
        say(f"wrote {found.path}")


def _format_row(each: Comparison) -> tuple[str, ...]:
    difference = each.difference
    return (
        f"{each.group} - {each.baseline}",
        f"{each.accuracy:.1%}",
        f"{each.baseline_accuracy:.1%}",
        _points(difference.mean, difference.half_width),
        _points(difference.mean, difference.half_width_new_images),
    )


def _points(mean: float, half_width: float | None) -> str:
    """Format a difference in points with half its interval; empty without an interval."""
    return "" if half_width is None else f"{100 * mean:+.1f} ± {100 * half_width:.1f}"


def _describe(each: Comparison) -> str:
    seeds, draws = len(each.seeds), len(each.draws)
    return (
        f"paired: {seeds} seed{'s' * (seeds > 1)} x {draws} draw{'s' * (draws > 1)} of the labels, the same "
        f"{each.num_images:,} test images"
    )
