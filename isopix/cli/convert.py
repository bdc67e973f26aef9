"""`isopix convert`: other people's Image GPTs in, ours out."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from isopix.cli.console import Json, say, show_json
from isopix.cli.loading import Positive, network_of
from isopix.codecs import palette_file
from isopix.core.command_line import command
from isopix.core.types import Grid
from isopix.interop import hub
from isopix.interop.huggingface import convert as theirs
from isopix.interop.import_run import TENSOR_REPORT, import_run
from isopix.interop.imported_model import ImportedModel
from isopix.interop.openai import convert as released
from isopix.report.load_run import gather_any
from isopix.report.model_card import card

app = App(
    name="convert",
    help="""Other people's Image GPTs in, ours out.

Example: isopix convert huggingface openai/imagegpt-small runs/imagegpt
""",
)

Out = Annotated[Path, Parameter(help="the folder to write; it must be new or empty")]
Rows = Annotated[
    int | None, Parameter(validator=Positive, help="of its images, where no file says; with --cols")
]
Cols = Annotated[
    int | None, Parameter(validator=Positive, help="of its images, where no file says; with --rows")
]
Data = Annotated[
    str | None, Parameter(help="the images that it was trained on, if you know: a name or a path")
]
PaletteFile = Annotated[Path | None, Parameter(help="a palette file, in place of the model's own")]


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
    """A run folder from Hugging Face's ImageGPT, in a local folder or on the hub.

    The weights may be safetensors or pickled tensors; a pickle that would do anything else is refused.

    Example: isopix convert huggingface openai/imagegpt-small runs/imagegpt

    Parameters
    ----------
    source
        A folder as save_pretrained leaves it, or a name of the hub (owner/name).
    """
    colours, grid = None if palette is None else palette_file.read(palette).colours, _grid(rows, cols)

    def read() -> ImportedModel:
        imported = theirs.read_imagegpt(hub.resolve_path(source), colours, grid=grid)
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
    """A run folder from a checkpoint of OpenAI's image-gpt, autoregressive or BERT; needs no TensorFlow.

    Example: isopix convert openai igpt-s/model.ckpt-1000000 runs/igpt-s --palette kmeans_centers.npy

    Parameters
    ----------
    prefix
        The checkpoint without the ends of its files: model.ckpt-1000000 for model.ckpt-1000000.index.
    palette
        The colours that its codes stand for: OpenAI's kmeans_centers.npy, or any palette file.
    """
    colours, grid = palette_file.read(palette).colours, _grid(rows, cols)
    _import(lambda: released.read_checkpoint(prefix, colours, grid=grid), out, data, json=json)


@app.command(name="to-huggingface")
def to_huggingface(run: Path, out: Out, *, json: Json = False) -> None:
    """A folder that transformers loads as ImageGPT and its image processor, with a model card.

    Example: isopix convert to-huggingface runs/ar exported

    Parameters
    ----------
    run
        The run folder, whose newest checkpoint is written, or a folder that isopix.save wrote.
    """
    loaded = network_of(run, "cpu")
    told = card(gather_any(run), name=out.name, library="transformers")
    theirs.write_imagegpt(out, loaded.network, card=told)
    if json:
        show_json({"folder": str(out), "step": loaded.step})
        return
    say(f"wrote {out}, step {loaded.step} of {run}")
    say(f"load it: transformers.ImageGPTForCausalImageModeling.from_pretrained('{out}')")


def _grid(rows: int | None, cols: int | None) -> Grid | None:
    if rows is None or cols is None:
        if rows != cols:
            raise ValueError("--rows and --cols belong together; one of them is missing")
        return None
    return Grid(rows, cols)


def _import(read: Callable[[], ImportedModel], out: Path, data: str | None, *, json: bool) -> None:
    run, imported = import_run(read, out, data=data, command=["isopix", *sys.argv[1:]])
    parameters = sum(tensor.numel() for tensor in imported.tensors.values())
    skipped = Counter(report.skipped for report in imported.tensor_reports if report.skipped)
    taken = sum(not report.skipped for report in imported.tensor_reports)
    rounded = sum(bool(report.rounded) for report in imported.tensor_reports)
    if json:
        rules = dict(skipped)
        counts = {"parameters": parameters, "tensors": taken, "rounded": rounded, "skipped": rules}
        show_json({"run": str(run.path), **counts})
        return
    say(f"{imported.origin}: {imported.depth} × {imported.width}, {parameters:,} parameters")
    say(f"took {taken} tensors; left out by rule: {sum(skipped.values())}")
    for rule, count in skipped.items():
        say(f"  {count} × {rule}")
    if rounded:
        number = f"{rounded} tensors of float64 were" if rounded > 1 else "1 tensor of float64 was"
        say(f"{number} rounded to float32, in which networks compute here")
    grid = imported.grid
    say(f"wrote {run.path}, which reads images of {grid.rows}×{grid.cols}")
    say(f"what became of each tensor: {next(run.checkpoints.glob('step-*')) / TENSOR_REPORT}.json")
    say(f"next: {command('verify', out)} --data … ; {command('probe', out)} --data …")
