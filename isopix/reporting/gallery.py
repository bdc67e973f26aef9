"""The pictures of a run with their captions; for a missing one the command that makes it."""

import base64
import io
import shlex
from collections.abc import Iterator

from jaxtyping import Float, UInt8
from markupsafe import Markup
from PIL import Image
from torch import Tensor

from isopix.core.overrides import flatten
from isopix.plots.images import png_bytes
from isopix.plots.palette import arrange_colors, is_gray, oklab
from isopix.reporting.run_record import RunRecord, SavedImage
from isopix.reporting.section import Chart, Panel, Section, Text, missing

COMMANDS = {
    "Samples": "isopix sample {} -n 16",
    "Nearest training images": "isopix sample {} -n 16 --nearest",
    "Completions": "isopix complete {} -n 8 --each 3",
    "Reconstructions": "isopix reconstruct {} -n 8",
}


def gallery_sections(run: RunRecord) -> list[Section]:
    """Return a section for each kind of picture that the model can make, or that is there."""
    there = dict.fromkeys(image.result.title for image in run.images)
    return [_section(title, run) for title in dict.fromkeys([*_possible(run), *there])]


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
        yield from ("Samples", "Nearest training images") if objective.can_sample else ("Reconstructions",)
        if head.categorical and (objective.can_sample or objective.masks_input):
            yield "Completions"


def _section(title: str, run: RunRecord) -> Section:
    images = [image for image in run.images if image.result.title == title]
    newest = [image for image in images if image.result.step == images[-1].result.step]
    notes: list[Text] = []
    if not images:
        notes.append(missing("None yet; to make some:", COMMANDS[title].format(shlex.quote(str(run.path)))))
    elif older := len(images) - len(newest):
        notes.append(f"{older} of earlier steps {'is' if older == 1 else 'are'} in {run.path / 'samples'}.")
    return Section(title, [Panel([_chart(image) for image in newest], notes=notes)])


def _chart(image: SavedImage) -> Chart:
    title, caption = image.result.title, image.result.caption
    return Chart(image_tag(image.png, f"{title}: {caption}"), caption, "pixels")


def _png(pixels: UInt8[Tensor, "rows cols 3"]) -> bytes:
    return png_bytes(Image.fromarray(pixels.numpy()))
