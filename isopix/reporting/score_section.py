"""Scores of images: likelihood beside learning-free scores, surprise maps, and AUROC between datasets."""

import shlex

from isopix.analysis.scores import SCORES, Summary
from isopix.core.measurement import split_images
from isopix.reporting.gallery import image_tag
from isopix.reporting.run_record import RunRecord, SavedScores
from isopix.reporting.section import NUMBER, Chart, Panel, Row, Section, Table, Text, missing

MAPS = (
    "The least and the most likely images, each with its surprise map: nats per pixel, brighter for less"
    " likely, all on one scale."
)


def score_section(run: RunRecord) -> Section | None:
    """Return a panel for each `isopix score`, the command if there was none, or None for a model without a
    loss of codes.
    """
    if not run.scores:
        if run.recipe is None or not run.predicts_codes:
            return None
        command = f"isopix score {shlex.quote(str(run.path))}"
        return Section("Likelihood", [Panel(notes=[missing("Not scored yet:", command)])])
    return Section("Likelihood", [_panel(each) for each in run.scores])


def _panel(saved: SavedScores) -> Panel:
    charts = [Chart(image_tag(saved.maps, MAPS), MAPS, "pixels")] if saved.maps else []
    columns = [("score", ""), (saved.data, NUMBER)]
    count = f"{next(iter(saved.scores.values())).images:,}"
    images = saved.measurement.count if saved.measurement else split_images(count, saved.split, saved.data)
    notes: list[Text] = [
        f"{images}: mean ± standard error, and in brackets the standard"
        " deviation over images. Higher is less likely, or harder to compress. PNG and WebP: a file of each"
        " image, with its own pixels."
    ]
    if saved.against:
        other = next(iter(saved.against.values())).images
        columns += [(saved.against_data, NUMBER), ("AUROC (95\u00a0% interval)", NUMBER)]
        notes.append(
            f"AUROC: the probability that one of {other:,} images of {saved.against_data} has a higher score"
            f" than one of {saved.data}; 0.5 does not distinguish them."
        )
    notes += [f"Note: {text}." for text in (saved.measurement.warnings if saved.measurement else ())]
    rows = [
        Row([SCORES.get(name, name), _text(each), *_compared(saved, name)])
        for name, each in saved.scores.items()
    ]
    return Panel(charts, [Table(columns, rows)], notes)


def _compared(saved: SavedScores, name: str) -> list[str]:
    if not saved.against:
        return []
    found = saved.auroc.get(name)
    text = "" if found is None else f"{found.auroc:.3f} ({found.low:.3f}–{found.high:.3f})"
    return [_text(saved.against[name]) if name in saved.against else "", text]


def _text(found: Summary) -> str:
    error = "" if found.standard_error is None else f" ± {found.standard_error:.3f}"
    spread = "" if found.standard_deviation is None else f" ({found.standard_deviation:.2f})"
    return f"{found.mean:.3f}{error}{spread}".replace("-", "\N{MINUS SIGN}")
