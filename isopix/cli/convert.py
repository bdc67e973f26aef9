"""`isopix convert`: convert checkpoints from and to Hugging Face, and from OpenAI."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from isopix.api import convert
from isopix.api.results import ConvertOutput
from isopix.cli.console import Json, Plugins, Positive, load_plugins, say, show_json
from isopix.core.command_line import command_line
from isopix.interop.import_run import TENSOR_REPORT

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
    str | None, Parameter(help="Dataset that the model was trained on, if known: a name or a path.")
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
    command = ["isopix", *sys.argv[1:]]
    found = convert.huggingface(
        source, out, palette=palette, rows=rows, cols=cols, data=data, command=command
    )
    _print_import(found, json=json)


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
    command = ["isopix", *sys.argv[1:]]
    found = convert.openai(prefix, out, palette=palette, rows=rows, cols=cols, data=data, command=command)
    _print_import(found, json=json)


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
    found = convert.to_huggingface(run, out)
    if json:
        show_json({"folder": str(out), "step": found.step})
        return
    say(f"wrote {out}, step {found.step} of {run}")
    say(f"load with: transformers.ImageGPTForCausalImageModeling.from_pretrained('{out}')")


def _print_import(found: ConvertOutput, *, json: bool) -> None:
    skipped, out = dict(found.skipped), found.path
    if json:
        counts = {"parameters": found.parameters, "tensors": found.tensors, "rounded": found.rounded}
        show_json({"run": str(out), **counts, "skipped": skipped})
        return
    say(f"{found.origin}: depth {found.depth}, width {found.width}, {found.parameters:,} parameters")
    say(f"loaded {found.tensors} tensors, skipped {sum(skipped.values())} by rule")
    for rule, count in skipped.items():
        say(f"  {count} × {rule}")
    if found.rounded:
        say(f"rounded {found.rounded} float64 tensor{'s' * (found.rounded > 1)} to float32")
    say(f"wrote {out}, for images of {found.grid.rows}×{found.grid.cols} pixels")
    say(f"tensor report: {next(out.glob('checkpoints/step-*')) / TENSOR_REPORT}.json")
    say(f"next: {command_line('verify', out)} --data … ; {command_line('probe', out)} --data …")
