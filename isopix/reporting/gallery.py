"""The pictures of a run with their captions; for a missing one the command that makes it."""

import base64
import io
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from jaxtyping import Float, UInt8
from markupsafe import Markup
from PIL import Image
from torch import Tensor

from isopix.core.overrides import flatten
from isopix.plots.images import png_bytes
from isopix.plots.palette import arrange_colors, is_gray, oklab
from isopix.reporting.run_record import RunRecord, SavedImage
from isopix.reporting.section import Chart, Panel, Section, Text, missing, percent

Facts = Mapping[str, Any]


class Gallery(NamedTuple):
    """A kind of picture: its title, the command that makes it, and its caption."""

    title: str
    command: str
    caption: Callable[[Facts, RunRecord], str]


def gallery_sections(run: RunRecord) -> list[Section]:
    """Return a section for each kind of picture that the model can make, or that is there."""
    there = dict.fromkeys(str(image.facts["kind"]) for image in run.images)
    return [_section(kind, run) for kind in dict.fromkeys([*_possible(run), *there])]


def embed(png: bytes) -> str:
    """Return a PNG as a data URL."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def image_tag(png: bytes, alt: str, *, scale: float = 0.5) -> Markup:
    """Return an image; by default at two of its pixels per CSS pixel, sharp on fine screens and in print."""
    with Image.open(io.BytesIO(png)) as image:
        width, height = (int(side * scale) for side in image.size)
    return Markup('<img src="{}" width="{}" height="{}" alt="{}">').format(embed(png), width, height, alt)


def palette_section(run: RunRecord, path: str) -> Section | None:
    """Return the colors of a run's palette; None for a codec without one."""
    if run.weights is None or run.weights.colors is None:
        expected = any(name.endswith("codec.palette_file") for name in flatten(run.settings))
        note = missing("No checkpoint with a palette yet; to resume:", f"isopix resume {path}")
        return Section("Palette", [Panel(notes=[note])]) if expected else None
    colors = run.weights.colors
    count = f"{len(colors):,} colors"
    tag = image_tag(_png(arrange_colors(colors, oklab(colors)).byte()), f"The palette: {count}", scale=1.0)
    order = "lightness" if is_gray(oklab(colors)) else "hue and lightness"
    chart = Chart(tag, f"All {count} of the palette by {order}.", "pixels palette")
    return Section("Palette", [Panel([chart])])


def color_strip(colors: Float[Tensor, "K 3"]) -> str:
    """Return all colors in one line of pixels, from dark to light, as a data URL."""
    return embed(_png(colors[oklab(colors)[:, 0].argsort()].round().byte()[None]))


def _possible(run: RunRecord) -> Iterator[str]:
    if run.recipe is not None and run.predicts_codes:
        objective, head = run.recipe.objective, run.recipe.model.head
        yield from ("samples", "nearest") if objective.can_sample else ("reconstructions",)
        if head.categorical and (objective.can_sample or objective.masks_input):
            yield "completions"


def _section(kind: str, run: RunRecord) -> Section:
    gallery = GALLERIES.get(kind, Gallery(kind, "", lambda facts, run: kind))
    images = [image for image in run.images if image.facts["kind"] == kind]
    newest = [image for image in images if image.facts["step"] == images[-1].facts["step"]]
    notes: list[Text] = []
    if not images:
        notes.append(missing("None yet; to make some:", gallery.command.format(shlex.quote(str(run.path)))))
    elif older := len(images) - len(newest):
        notes.append(f"{older} of earlier steps {'is' if older == 1 else 'are'} in {run.path / 'samples'}.")
    return Section(gallery.title, [Panel([_chart(image, gallery, run) for image in newest], notes=notes)])


def _chart(image: SavedImage, gallery: Gallery, run: RunRecord) -> Chart:
    caption = gallery.caption(image.facts, run)
    return Chart(image_tag(image.png, f"{gallery.title}: {caption}"), caption, "pixels")


def _samples(facts: Facts, run: RunRecord) -> str:
    return f"{_count(facts)}, sampled pixel by pixel{_sampling(facts)} {_when(facts)}"


def _nearest(facts: Facts, run: RunRecord) -> str:
    own, held_out, training = (facts.get(name) for name in ("distances", "held_out", "training_images"))
    if not (isinstance(own, list) and own and isinstance(held_out, list) and isinstance(training, int)):
        return f"{_count(facts)}, each beside the nearest training image {_when(facts)}"
    compared = f"; of {len(held_out):,} held-out images {median(held_out):.1f}" if held_out else ""
    return (
        f"{_count(facts)}, each beside the nearest of {training:,} training images. Median distance (root"
        f" mean square difference of levels 0..255): {median(own):.1f}{compared}. Samples that are much"
        f" nearer than held-out images repeat training images{_sampling(facts)} {_when(facts)}"
    )


def _completions(facts: Facts, run: RunRecord) -> str:
    each, hidden = facts.get("each", 1), facts.get("hidden")
    what = f"{_count(facts)}{_source(facts)}"
    shown = f"Prompt: the top {facts.get('rows', 'first')} rows of {what}"
    if isinstance(hidden, float) and "rows" not in facts:
        mask = str(facts.get("mask", "a mask")).rpartition("/")[2]
        shown = f"{what}, of which {percent(hidden)} are hidden ({mask}), in gray-violet; masked images"
    passes = f"; order: {facts['order']}, {facts['iterations']} passes" if "order" in facts else ""
    return (
        f"{shown}, as the network reads them; {each} completion{'s' * (each != 1)} of each{passes}"
        f"{_sampling(facts)}{_baseline(facts)} {_when(facts)}"
    )


def _reconstructions(facts: Facts, run: RunRecord) -> str:
    accuracy, patches = (
        facts.get("accuracy"),
        run.recipe is not None and run.recipe.model.codec.patch_size > 1,
    )
    baselines = facts.get("baselines") or {}
    others = "; ".join(f"{name} {percent(value)}" for name, value in baselines.items())
    exact = f", exact for {percent(accuracy)} in these {_count(facts)}" if isinstance(accuracy, float) else ""
    exact += f" ({others})" if exact and others else ""
    unit = "code" if run.recipe is None else run.recipe.model.codec.unit()
    decoded = " Predicted codes are shown decoded, next to the decoded targets." if patches else ""
    return (
        f"{_count(facts)}{_source(facts)}; masked {'patches' if patches else 'pixels'} in gray-violet."
        f" Prediction: the most likely value of each masked {unit}{exact}.{decoded}"
        f"{_baseline(facts)} {_when(facts)}"
    )


def _baseline(facts: Facts) -> str:
    """Say what the column of the baseline shows; older pictures have none."""
    name = facts.get("baseline")
    text = f" {str(name).capitalize()}: each hidden pixel as the nearest visible one, without learning."
    return text if name else ""


GALLERIES = {
    "samples": Gallery("Samples", "isopix sample {} -n 16", _samples),
    "nearest": Gallery("Nearest training images", "isopix sample {} -n 16 --nearest", _nearest),
    "completions": Gallery("Completions", "isopix complete {} -n 8 --each 3", _completions),
    "reconstructions": Gallery("Reconstructions", "isopix reconstruct {} -n 8", _reconstructions),
}


def _count(facts: Facts) -> str:
    count = facts.get("count", "some")
    return f"{count} image{'' if count == 1 else 's'}"


def _source(facts: Facts) -> str:
    data, split = facts.get("data"), facts.get("split")
    return f" from {Path(str(data)).name}{f' ({split})' if split else ''}" if data else ""


def _sampling(facts: Facts) -> str:
    names = {"temperature": "temperature", "top_k": "top-k", "top_p": "top-p"}
    given = [
        f"{name} {facts[key]:g}" for key, name in names.items() if isinstance(facts.get(key), int | float)
    ]
    return f"; {', '.join(given)}." if given else "."


def _when(facts: Facts) -> str:
    step = facts.get("step")
    shown = f"{step:,}" if isinstance(step, int) else "unknown"
    return f"Step {shown}, seed {facts.get('seed', 'unknown')}."


def _png(pixels: UInt8[Tensor, "rows cols 3"]) -> bytes:
    return png_bytes(Image.fromarray(pixels.numpy()))
