"""The page: a head, the image at the left, the tabs at the right, in the look of the report."""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import gradio as gr
from starlette.middleware import Middleware

from isopix.generate.results import Order, Passes
from isopix.studio.guard import MAX_FILE, Guard
from isopix.studio.panel import CANVAS, QUIET, ImagePanel, build_image_panel
from isopix.studio.run import Ability, ChosenImage, OpenedRun, hidden_part, image_of
from isopix.studio.views import (
    attention_tiles,
    completion_frames,
    download_html,
    escaped,
    feature_map_html,
    neighbor_tiles,
    note_html,
    problem_html,
    surprise_tiles,
    tiles_html,
)

CSS = Path(__file__).with_name("studio.css")


def build_page(runs: Sequence[OpenedRun]) -> Any:
    """Return the page of opened runs."""
    with gr.Blocks(title=f"isopix studio: {runs[0].name}", analytics_enabled=False) as page:
        lines = [f"<p><strong>{escaped(run.name)}</strong>: {escaped(run.label())}</p>" for run in runs]
        head = f'<header class="studio-head"><h1>isopix studio</h1>{"".join(lines)}</header>'
        gr.HTML(head, padding=False)
        with gr.Row():
            with gr.Column(scale=2, min_width=320):
                panel, connect = build_image_panel(runs)
            with gr.Column(scale=3, min_width=320):
                build_tabs({run.name: run for run in runs}, panel)
        connect()
    return page


def start_page(page: Any, *, host: str, port: int | None, browser: bool, uploads: Path) -> str:
    """Serve the page at this port, or the next free one, and return its URL. Raises OSError if taken."""
    _, url, _ = page.queue(default_concurrency_limit=None).launch(
        server_name=host,
        server_port=port,
        inbrowser=browser,
        prevent_thread_lock=True,
        quiet=True,
        share=False,
        ssr_mode=False,
        enable_monitoring=False,
        footer_links=[],
        max_file_size=MAX_FILE,
        app_kwargs={"middleware": [Middleware(Guard, uploads=uploads)]},
        theme=studio_theme(),
        css_paths=CSS,
    )
    return str(url)


def stop_page(page: Any) -> None:
    """End the server without waiting for open pages, which takes five seconds, and without their errors."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    if page.server is not None:
        page.server.force_exit = True
    page.close(verbose=False)


SANS = ("ui-sans-serif", "system-ui", "Segoe UI", "Roboto", "Helvetica Neue", "Liberation Sans", "sans-serif")
MONO = ("ui-monospace", "Menlo", "Consolas", "Liberation Mono", "monospace")

# Which color of studio.css each part of the page has.
PARTS = {
    "paper": "body_background_fill background_fill_primary background_fill_secondary panel_background_fill"
    " block_background_fill block_label_background_fill",
    "raised": "input_background_fill button_secondary_background_fill button_primary_text_color"
    " checkbox_label_background_fill checkbox_label_background_fill_selected",
    "ink": "body_text_color button_secondary_text_color",
    "quiet": "body_text_color_subdued block_label_text_color block_title_text_color block_info_text_color",
    "rule": "block_border_color border_color_primary input_border_color",
    "mark": "border_color_accent button_primary_background_fill checkbox_background_color_selected"
    " slider_color loader_color",
    "strong": "button_primary_background_fill_hover",
}


def studio_theme() -> Any:
    """Return the theme: fonts of the system only, so that nothing is downloaded."""
    theme = gr.themes.Base(font=list(SANS), font_mono=list(MONO), radius_size="sm")
    colors = {
        f"{part}{mode}": f"var(--{color})"
        for color, parts in PARTS.items()
        for part in parts.split()
        for mode in ("", "_dark")
    }
    return theme.set(**colors, block_shadow="none", block_shadow_dark="none")


Runs = dict[str, OpenedRun]
Compute = Callable[..., Iterator[str]]
# One computation at a time; others wait in line, and a second click of a button waits for the first.
QUEUED: dict[str, Any] = {
    "concurrency_id": "model",
    "concurrency_limit": 1,
    "trigger_mode": "always_last",
    "api_visibility": "private",
}
FAILURES = (ValueError, RuntimeError, OSError)  # of which the page shows one line


def build_tabs(runs: Runs, panel: ImagePanel) -> None:
    """Add the tabs, the comparison only for several runs."""
    with gr.Tabs():
        with gr.Tab("Complete"):
            settings = _completion_settings(runs)
            _complete(runs, panel, settings)
        if len(runs) > 1:
            with gr.Tab("Compare"):
                _compare(runs, panel, settings)
        with gr.Tab("Layers"):
            _layers(runs, panel)
        with gr.Tab("Attention"):
            _attention(runs, panel)
        with gr.Tab("Surprise"):
            _surprise(runs, panel)


def _completion_settings(runs: Runs) -> list[Any]:
    largest = max(run.model.network.codec.vocab_size for run in runs.values())
    with gr.Row():
        each = gr.Slider(1, 8, value=4, step=1, label="Completions", elem_id="each")
        temperature = gr.Slider(0.1, 2.0, value=1.0, step=0.05, label="Temperature", elem_id="temperature")
    with gr.Row():
        top_k = gr.Number(0, label=f"Top-k (0: all {largest:,})", precision=0, minimum=0, elem_id="top-k")
        seed = gr.Number(0, label="Seed", precision=0, minimum=0, elem_id="seed")
    masked = any(not run.loaded.recipe.objective.can_sample for run in runs.values())
    with gr.Row(visible=masked):
        default = Passes()
        order = gr.Radio(get_args(Order), value=default.order, label="Order (masked models)")
        iterations = gr.Slider(1, 64, value=default.iterations, step=1, label="Passes (masked models)")
    return [each, temperature, top_k, seed, order, iterations]


def _complete(runs: Runs, panel: ImagePanel, settings: list[Any]) -> None:
    start, stop = _start_and_stop("Complete")
    result = _results(runs, panel, "complete", [start])
    given = [panel.run, panel.chosen, panel.editor, panel.shape, *settings]
    _connect(start, stop, lambda name, *given: _completed([runs[name]], *given), given, result)


def _compare(runs: Runs, panel: ImagePanel, settings: list[Any]) -> None:
    _note("The same part of the same image, with the settings of the tab Complete.")
    start, stop = _start_and_stop("Compare")
    result = gr.HTML(padding=False, elem_id="compare-result", elem_classes="results")
    given = [panel.chosen, panel.editor, panel.shape, *settings]
    _connect(start, stop, partial(_completed, list(runs.values())), given, result)


def _start_and_stop(label: str) -> tuple[Any, Any]:
    with gr.Row():
        start = gr.Button(label, variant="primary", elem_id=label.lower())
        return start, gr.Button("Stop")


def _connect(start: Any, stop: Any, compute: Compute, given: list[Any], result: Any) -> None:
    event = start.click(_calm(compute), given, result, show_progress="hidden", **QUEUED)
    stop.click(None, cancels=[event], api_visibility="private")


def _completed(
    runs: Sequence[OpenedRun], chosen: ChosenImage | None, layers: Any, shape: str, *values: Any
) -> Iterator[str]:
    each, temperature, top_k, seed, order, iterations = values
    settings = {"each": int(each), "temperature": float(temperature), "top_k": int(top_k or 0) or None}
    settings |= {"seed": int(seed or 0), "order": order, "iterations": int(iterations)}
    finished = ""
    for run in runs:
        title, shown, made = run.name if len(runs) > 1 else "", "", []
        try:
            image = image_of(run, chosen)
            for frame in completion_frames(run, image, hidden_part(shape, layers), settings):
                made.append(frame.completions)
                note = note_html(f"step {frame.done:,} of {frame.total:,}")
                if frame.done == frame.total:
                    note = download_html(made) + note_html(frame.note)
                shown = tiles_html([*frame.given, *frame.completions], title=title) + note
                yield finished + shown
        except FAILURES as error:
            shown = tiles_html([], title=title) + problem_html(str(error))
        finished += shown
        yield finished


def _layers(runs: Runs, panel: ImagePanel) -> None:
    _note("The nearest images by the features of a layer (cosine similarity), or a map of all images.")
    deepest = max(run.model.depth for run in runs.values())
    layer = gr.Slider(0, deepest, value=deepest // 2, step=1, label="Layer", elem_id="layer")
    with gr.Row():
        start = gr.Button("Find neighbors", variant="primary", elem_id="neighbors")
        draw = gr.Button("Draw a map", elem_id="map")
    result = gr.HTML(padding=False, elem_id="layers-result", elem_classes="results")

    def compute(name: str, chosen: ChosenImage | None, layer: float) -> Iterator[str]:
        run, number = runs[name], int(layer)
        run.model.network.backbone.truncated(number)  # raises ValueError for a layer that does not exist
        first = next(iter(runs.values()))  # whose test images are shown
        index = chosen.test_index if chosen and run is first else None
        tiles = neighbor_tiles(run, image_of(run, chosen), number, index=index)
        yield tiles_html(tiles, title=f"Layer {number}")

    def compute_map(name: str, layer: float) -> Iterator[str]:
        yield feature_map_html(runs[name], int(layer))

    given = [panel.run, panel.chosen, layer]
    start.click(_calm(compute), given, result, **QUEUED)
    draw.click(_calm(compute_map), [panel.run, layer], result, **QUEUED)
    layer.release(_calm(compute), given, result, **QUEUED)


def _attention(runs: Runs, panel: ImagePanel) -> None:
    _note("Where the position of a pixel attends to, mean over heads. Bright: more.")
    panel.pointer.render()
    middle_row, middle_column = _middle(next(iter(runs.values())))
    with gr.Row():
        row = gr.Number(middle_row, label="Row", precision=0, minimum=0, elem_id="row")
        column = gr.Number(middle_column, label="Column", precision=0, minimum=0, elem_id="column")
        start = gr.Button("Show attention", variant="primary", elem_id="attend")
    result = _results(runs, panel, "attention", [start])

    def compute(name: str, chosen: ChosenImage | None, row: float, column: float) -> Iterator[str]:
        image = image_of(runs[name], chosen)
        yield tiles_html(attention_tiles(runs[name], image, int(row or 0), int(column or 0)))

    def locate(name: str, event: gr.SelectData) -> tuple[int, int]:
        (x, y), scale = event.index, max(runs[name].size) / CANVAS
        return int(y * scale), int(x * scale)

    panel.run.change(lambda name: _middle(runs[name]), panel.run, [row, column], **QUIET)
    given = [panel.run, panel.chosen, row, column]
    clicked = panel.pointer.select(locate, panel.run, [row, column], **QUIET)
    clicked.then(_calm(compute), given, result, **QUEUED)
    start.click(_calm(compute), given, result, **QUEUED)


def _middle(run: OpenedRun) -> tuple[int, int]:
    return run.size[0] // 2, run.size[1] // 2


def _surprise(runs: Runs, panel: ImagePanel) -> None:
    _note("How unexpected each pixel is to the model: -ln p of its code, in nats per pixel.")
    start = gr.Button("Show surprise", variant="primary", elem_id="surprise")
    result = _results(runs, panel, "surprise", [start])

    def compute(name: str, chosen: ChosenImage | None) -> Iterator[str]:
        tiles, scores = surprise_tiles(runs[name], image_of(runs[name], chosen))
        yield tiles_html(tiles) + scores.html()

    start.click(_calm(compute), [panel.run, panel.chosen], result, **QUEUED)


def _note(text: str) -> None:
    gr.HTML(note_html(text), padding=False)


def _results(runs: Runs, panel: ImagePanel, ability: Ability, buttons: list[Any]) -> Any:
    def state(name: str) -> list[Any]:
        problem = runs[name].problem(ability)
        return [note_html(problem), *(gr.Button(interactive=not problem) for _ in buttons)]

    problem = next(iter(runs.values())).problem(ability)
    result = gr.HTML(note_html(problem), padding=False, elem_id=f"{ability}-result", elem_classes="results")
    for button in buttons:
        button.interactive = not problem
    panel.run.change(state, panel.run, [result, *buttons], api_visibility="private")
    return result


def _calm(compute: Compute) -> Compute:
    def safe(*given: Any) -> Iterator[str]:
        try:
            yield from compute(*given)
        except FAILURES as error:
            yield problem_html(str(error))

    return safe
