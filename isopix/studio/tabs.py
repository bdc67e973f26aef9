"""The tabs of the page: complete, compare, layers, attention, surprise."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import gradio as gr

from isopix.generate.config import Order, Passes
from isopix.studio.panel import ImagePanel, image_of, mask_of
from isopix.studio.run import Ability, ChosenImage, OpenedRun
from isopix.studio.views import (
    CompletionFrame,
    CompletionSettings,
    attention_tiles,
    completion_frames,
    neighbor_tiles,
    note_html,
    problem_html,
    surprise_tiles,
    table_html,
    tiles_html,
)

Runs = dict[str, OpenedRun]
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


def _read_settings(values: Sequence[Any]) -> CompletionSettings:
    each, temperature, top_k, seed, order, iterations = values
    return CompletionSettings(
        each=int(each),
        temperature=float(temperature),
        top_k=int(top_k) if top_k else None,
        seed=int(seed or 0),
        order=order,
        iterations=int(iterations),
    )


def _complete(runs: Runs, panel: ImagePanel, settings: list[Any]) -> None:
    with gr.Row():
        start = gr.Button("Complete", variant="primary", elem_id="complete")
        stop = gr.Button("Stop", elem_id="stop")
    result = _results(runs, panel, "complete", [start])

    def compute(
        name: str, chosen: ChosenImage | None, editor: Any, shape: str, *values: Any
    ) -> Iterator[str]:
        run = runs[name]
        for frame in _frames(run, chosen, editor, shape, values):
            yield _shown(frame)

    given = [panel.run, panel.chosen, panel.editor, panel.shape, *settings]
    event = start.click(_calm_steps(compute), given, result, show_progress="hidden", **QUEUED)
    stop.click(None, cancels=[event], api_visibility="private")


def _compare(runs: Runs, panel: ImagePanel, settings: list[Any]) -> None:
    gr.HTML(
        note_html("The same part of the same image, with the settings of the tab Complete."), padding=False
    )
    with gr.Row():
        start = gr.Button("Compare", variant="primary", elem_id="compare")
        stop = gr.Button("Stop", elem_id="stop-comparison")
    result = gr.HTML(padding=False, elem_id="compare-result", elem_classes="results")

    def compute(chosen: ChosenImage | None, editor: Any, shape: str, *values: Any) -> Iterator[str]:
        finished = ""
        for run in runs.values():
            frame = ""
            try:
                for found in _frames(run, chosen, editor, shape, values):
                    frame = _shown(found, title=run.name)
                    yield finished + frame
            except FAILURES as error:
                frame = tiles_html([], title=run.name) + problem_html(str(error))
            finished += frame
            yield finished

    given = [panel.chosen, panel.editor, panel.shape, *settings]
    event = start.click(_calm_steps(compute), given, result, show_progress="hidden", **QUEUED)
    stop.click(None, cancels=[event], api_visibility="private")


def _frames(
    run: OpenedRun, chosen: ChosenImage | None, editor: Any, shape: str, values: Sequence[Any]
) -> Iterator[CompletionFrame]:
    image = image_of(run, chosen)
    return completion_frames(run, image, mask_of(run, editor, shape), _read_settings(values))


def _shown(frame: CompletionFrame, *, title: str = "") -> str:
    steps = frame.note if frame.done == frame.total else f"step {frame.done:,} of {frame.total:,}"
    return tiles_html(frame.tiles, title=title) + note_html(steps)


def _layers(runs: Runs, panel: ImagePanel) -> None:
    gr.HTML(
        note_html("The nearest test images by the features of a layer (cosine similarity)."), padding=False
    )
    deepest = max(run.model.depth for run in runs.values())
    layer = gr.Slider(0, deepest, value=deepest // 2, step=1, label="Layer", elem_id="layer")
    start = gr.Button("Find neighbors", variant="primary", elem_id="neighbors")
    result = gr.HTML(padding=False, elem_id="layers-result", elem_classes="results")

    def compute(name: str, chosen: ChosenImage | None, layer: float) -> str:
        run, number = runs[name], int(layer)
        if number > run.model.depth:
            raise ValueError(f"layer {number} does not exist; layers are 0 to {run.model.depth}")
        index = None if chosen is None else chosen.test_index
        image = image_of(run, chosen)
        own = index if run is next(iter(runs.values())) else None
        return tiles_html(neighbor_tiles(run, image, number, index=own), title=f"Layer {number}")

    given = [panel.run, panel.chosen, layer]
    start.click(_calm(compute), given, result, **QUEUED)
    layer.release(_calm(compute), given, result, **QUEUED)


def _attention(runs: Runs, panel: ImagePanel) -> None:
    gr.HTML(
        note_html("Where the position of a pixel attends to, mean over heads. Bright: more."), padding=False
    )
    panel.pointer.render()
    with gr.Row():
        row = gr.Number(0, label="Row", precision=0, minimum=0, elem_id="row")
        column = gr.Number(0, label="Column", precision=0, minimum=0, elem_id="column")
        start = gr.Button("Show attention", variant="primary", elem_id="attend")
    result = _results(runs, panel, "attention", [start])

    def compute(name: str, chosen: ChosenImage | None, row: float, column: float) -> str:
        run = runs[name]
        return tiles_html(attention_tiles(run, image_of(run, chosen), int(row or 0), int(column or 0)))

    def locate(name: str, picture: Any, event: gr.SelectData) -> tuple[int, int]:
        (rows, cols), (height, width) = runs[name].size, picture.shape[:2]
        x, y = event.index
        return int(y * rows / height), int(x * cols / width)

    given = [panel.run, panel.chosen, row, column]
    clicked = panel.pointer.select(
        locate, [panel.run, panel.pointer], [row, column], show_progress="hidden", api_visibility="private"
    )
    clicked.then(_calm(compute), given, result, **QUEUED)
    start.click(_calm(compute), given, result, **QUEUED)


def _surprise(runs: Runs, panel: ImagePanel) -> None:
    gr.HTML(
        note_html("How unexpected each pixel is to the model: -ln p of its code, in nats per pixel."),
        padding=False,
    )
    start = gr.Button("Show surprise", variant="primary", elem_id="surprise")
    result = _results(runs, panel, "surprise", [start])

    def compute(name: str, chosen: ChosenImage | None) -> str:
        tiles, scores = surprise_tiles(runs[name], image_of(runs[name], chosen))
        return tiles_html(tiles) + table_html(scores)

    start.click(_calm(compute), [panel.run, panel.chosen], result, **QUEUED)


def _results(runs: Runs, panel: ImagePanel, ability: Ability, buttons: list[Any]) -> Any:
    """Add where results are shown; a model that has none says why, and its buttons are off."""

    def state(name: str) -> list[Any]:
        problem = runs[name].problem(ability)
        return [note_html(problem), *(gr.Button(interactive=not problem) for _ in buttons)]

    result = gr.HTML(
        note_html(next(iter(runs.values())).problem(ability)), padding=False, elem_id=f"{ability}-result"
    )
    result.elem_classes = ["results"]
    for button in buttons:
        button.interactive = not next(iter(runs.values())).problem(ability)
    panel.run.change(state, panel.run, [result, *buttons], api_visibility="private")
    return result


def _calm(compute: Callable[..., str]) -> Callable[..., str]:
    """Return the function with a line of text for each failure."""

    def safe(*given: Any) -> str:
        try:
            return compute(*given)
        except FAILURES as error:
            return problem_html(str(error))

    return safe


def _calm_steps(compute: Callable[..., Iterator[str]]) -> Callable[..., Iterator[str]]:
    def safe(*given: Any) -> Iterator[str]:
        try:
            yield from compute(*given)
        except FAILURES as error:
            yield problem_html(str(error))

    return safe
