"""The left part of the page: choose or drop an image, and say what to hide of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
from jaxtyping import UInt8
from PIL import Image

from isopix.studio.run import SHAPES, ChosenImage, OpenedRun, Pixels, image_of, painted_part, pixels_of
from isopix.studio.views import note_html, problem_html

CANVAS = 320  # pixels, the longer side of the picture that is painted on
SHOWN = 24  # test images
BRUSH = (155, 89, 208)  # red, green, blue
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}  # of an event


@dataclass(frozen=True)
class ImagePanel:
    """The components whose values the tabs read."""

    run: Any  # name of the chosen run
    chosen: Any  # ChosenImage
    editor: Any
    shape: Any
    pointer: Any  # the picture on which a pixel is clicked


def enlarged(pixels: Pixels) -> Pixels:
    """Return the image with its longer side of CANVAS pixels, each pixel about a square."""
    height, width = pixels.shape[:2]
    scale = CANVAS / max(height, width)
    size = (round(width * scale), round(height * scale))
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.NEAREST))


def build_image_panel(runs: Sequence[OpenedRun]) -> tuple[ImagePanel, Callable[[], None]]:
    """Add the components, and return them with the function that connects them, once all are there."""
    first = runs[0]
    start = ChosenImage(pixels_of(first.images), 0) if len(first.images) else None
    picture = None if start is None else enlarged(pixels_of(first.images))
    run = gr.Radio(
        [each.name for each in runs], value=first.name, label="Model", visible=len(runs) > 1, elem_id="model"
    )
    chosen = gr.State(start)
    editor = _editor(first, picture)
    shape = gr.Radio(list(SHAPES), value=next(iter(SHAPES)), label="Hide", elem_id="shape")
    file = gr.File(label="Your own photo", height=130, elem_id="file")
    message = gr.HTML(padding=False, elem_id="image-message")
    gallery = gr.Gallery(
        [(enlarged(pixels_of(each[None])), "") for each in first.images[:SHOWN]],
        label="Images",
        columns=6,
        height="auto",
        allow_preview=False,
        buttons=[],
        format="png",
        elem_id="images",
        visible=len(first.images) > 0,
    )
    gr.HTML(note_html(first.note), padding=False)
    pointer = gr.Image(
        picture,
        label="Click a pixel",
        interactive=False,
        buttons=[],
        format="png",
        height=CANVAS,
        elem_id="pointer",
        elem_classes="pixelated",
        render=False,
    )
    panel = ImagePanel(run, chosen, editor, shape, pointer)
    return panel, lambda: _connect({each.name: each for each in runs}, panel, (message, gallery, file))


def _editor(run: OpenedRun, picture: Pixels | None) -> Any:
    rows, cols = run.size
    scale = CANVAS / max(rows, cols)
    editor = gr.ImageEditor(
        picture,
        label="Paint what to hide",
        type="numpy",
        sources=(),
        transforms=(),
        layers=False,
        buttons=[],
        brush=gr.Brush(default_size=30, colors=[f"rgb{BRUSH}"], color_mode="fixed"),
        eraser=gr.Eraser(default_size=30),
        canvas_size=(round(cols * scale), round(rows * scale)),
        fixed_canvas=True,
        height=CANVAS + 80,
        elem_id="editor",
        elem_classes="pixelated",
    )
    # Its value is the files of its painted layers: gradio would decode them, and others, of any size.
    editor.preprocess = lambda value: [Path(each.path) for each in value.layers] if value else []
    editor.accept_blobs = None  # images that would be kept in memory
    return editor


def _connect(runs: dict[str, OpenedRun], panel: ImagePanel, others: tuple[Any, Any, Any]) -> None:
    message, gallery, file = others
    gallery_run = next(iter(runs.values()))

    def show(name: str, chosen: ChosenImage | None, before: ChosenImage | None) -> tuple[Any, ...]:
        try:
            picture = enlarged(pixels_of(image_of(runs[name], chosen)))
        except ValueError as error:
            return before, gr.skip(), gr.skip(), problem_html(str(error))
        return chosen, picture, picture, ""

    def choose(name: str, before: ChosenImage | None, event: gr.SelectData) -> tuple[Any, ...]:
        pixels = pixels_of(gallery_run.images[event.index :][:1])
        return show(name, ChosenImage(pixels, event.index), before)

    def drop(name: str, path: str, before: ChosenImage | None) -> tuple[Any, ...]:
        content = Path(path).read_bytes()
        Path(path).unlink()  # it counts as an upload as long as it is there
        return show(name, ChosenImage(content), before)

    def switch(name: str, now: ChosenImage | None, layers: Sequence[Path]) -> tuple[Any, ...]:
        chosen, picture, pointed, problem = show(name, now, now)
        if layers and not problem:
            picture = {"background": picture, "layers": [_painted(layers, picture)], "composite": None}
        return chosen, picture, pointed, problem

    outputs = [panel.chosen, panel.editor, panel.pointer, message]
    gallery.select(choose, [panel.run, panel.chosen], outputs, **QUIET)
    dropped = file.upload(drop, [panel.run, file, panel.chosen], outputs, **QUIET)
    dropped.then(lambda: None, None, file, **QUIET)  # so that another file can be dropped
    panel.run.change(switch, [panel.run, panel.chosen, panel.editor], outputs, **QUIET)


def _painted(layers: Sequence[Path], picture: Pixels) -> UInt8[np.ndarray, "H W 4"]:
    """Return what is painted, at the size of another picture."""
    height, width = picture.shape[:2]
    alpha = Image.fromarray(painted_part(layers)).resize((width, height), Image.Resampling.NEAREST)
    return np.dstack(
        [np.full((height, width, 3), BRUSH, np.uint8), np.uint8(255) * np.asarray(alpha, np.uint8)]
    )
