"""`isopix convert`: convert checkpoints from and to Hugging Face, and from OpenAI."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from isopix.cli.console import Json, Plugins, load_plugins, say, show_json
from isopix.cli.loading import Positive, load_network
from isopix.codecs import palette_file
from isopix.core.command_line import command_line
from isopix.core.types import Grid
from isopix.interop import hub
from isopix.interop.huggingface import convert as hf
from isopix.interop.import_run import TENSOR_REPORT, import_run
from isopix.interop.imported_model import ImportedModel
from isopix.interop.openai import convert as openai_checkpoint
from isopix.report.load_run import load_run_or_model
from isopix.report.model_card import model_card

app = App(
    name="convert",
    help="""Convert checkpoints from and to Hugging Face, and from OpenAI.

Example: isopix convert huggingface openai/imagegpt-small runs/imagegpt
""",
)

Out = Annotated[Path, Parameter(help="Folder to create; it must be new or empty.")]
Rows = Annotated[
    int | None, Parameter(validator=Positive, help="Image rows, where no file states them; with --cols.")
]
Cols = Annotated[
    int | None, Parameter(validator=Positive, help="Image columns, where no file states them; with --rows.")
]
Data = Annotated[
    str | None, Parameter(help="Data set that the model was trained on, if known: a name or a path.")
]
PaletteFile = Annotated[Path | None, Parameter(help="Palette file to use instead of the model's own.")]


@app.command
def huggingface(
    source: str,
    out: Out,
    *,
    palette: PaletteFile = None,
    rows: Rows = None,
    cols: Cols = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Convert a Hugging Face ImageGPT, in a local folder or on the Hub, to a run folder.

    Weights may be safetensors or pickled tensors; a pickle with anything but tensors is rejected.

    Example: isopix convert huggingface openai/imagegpt-small runs/imagegpt

    Parameters
    ----------
    source
        Folder written by save_pretrained, or a repository on the Hub (owner/name).
    """
    colors, grid = None if palette is None else palette_file.read_palette(palette).colors, _grid(rows, cols)

    def read() -> ImportedModel:
        imported = hf.read_imagegpt(hub.resolve_path(source), colors, grid=grid)
        return imported if Path(source).exists() else replace(imported, origin=f"Hugging Face {source}")

    _import(read, out, data, json=json)


@app.command
def openai(
    prefix: Path,
    out: Out,
    *,
    palette: Path,
    rows: Rows = None,
    cols: Cols = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Convert an OpenAI image-gpt checkpoint, autoregressive or BERT, to a run folder, without TensorFlow.

    Example: isopix convert openai igpt-s/model.ckpt-1000000 runs/igpt-s --palette kmeans_centers.npy

    Parameters
    ----------
    prefix
        Checkpoint path without file suffixes: model.ckpt-1000000 for model.ckpt-1000000.index.
    palette
        Palette of the checkpoint: OpenAI's kmeans_centers.npy, or any palette file.
    """
    colors, grid = palette_file.read_palette(palette).colors, _grid(rows, cols)
    _import(lambda: openai_checkpoint.read_checkpoint(prefix, colors, grid=grid), out, data, json=json)


@app.command(name="to-huggingface")
def to_huggingface(run: Path, out: Out, *, plugin: Plugins = None, json: Json = False) -> None:
    """Convert a run to a folder that transformers loads as ImageGPT, with image processor and model card.

    Example: isopix convert to-huggingface runs/ar exported

    Parameters
    ----------
    run
        Run folder, whose newest checkpoint is converted, or a folder written by isopix.save.
    """
    load_plugins(plugin)
    loaded = load_network(run, "cpu")
    readme = model_card(load_run_or_model(run), name=out.name, library="transformers")
    hf.write_imagegpt(out, loaded.network, card=readme)
    if json:
        show_json({"folder": str(out), "step": loaded.step})
        return
    say(f"wrote {out}, step {loaded.step} of {run}")
    say(f"load with: transformers.ImageGPTForCausalImageModeling.from_pretrained('{out}')")


def _grid(rows: int | None, cols: int | None) -> Grid | None:
    if rows is None or cols is None:
        if rows != cols:
            raise ValueError("--rows and --cols must be given together")
        return None
    return Grid(rows, cols)


def _import(read: Callable[[], ImportedModel], out: Path, data: str | None, *, json: bool) -> None:
    run, imported = import_run(read, out, data=data, command=["isopix", *sys.argv[1:]])
    parameters = sum(tensor.numel() for tensor in imported.tensors.values())
    skipped = Counter(report.skipped for report in imported.tensor_reports if report.skipped)
    loaded = sum(not report.skipped for report in imported.tensor_reports)
    rounded = sum(bool(report.rounded) for report in imported.tensor_reports)
    if json:
        rules = dict(skipped)
        counts = {"parameters": parameters, "tensors": loaded, "rounded": rounded, "skipped": rules}
        show_json({"run": str(run.path), **counts})
        return
    say(f"{imported.origin}: depth {imported.depth}, width {imported.width}, {parameters:,} parameters")
    say(f"loaded {loaded} tensors, skipped {sum(skipped.values())} by rule")
    for rule, count in skipped.items():
        say(f"  {count} × {rule}")
    if rounded:
        say(f"rounded {rounded} float64 tensor{'s' * (rounded > 1)} to float32")
    grid = imported.grid
    say(f"wrote {run.path}, for images of {grid.rows}×{grid.cols} pixels")
    say(f"tensor report: {next(run.checkpoints.glob('step-*')) / TENSOR_REPORT}.json")
    say(f"next: {command_line('verify', out)} --data … ; {command_line('probe', out)} --data …")
