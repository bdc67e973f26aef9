"""`isopix convert`: convert checkpoints from and to Hugging Face, and from OpenAI and timm."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from isopix.api import convert
from isopix.api.results import ConvertOutput
from isopix.cli.console import Json, Plugins, Positive, load_plugins, say, show_json
from isopix.core.text import command_line
from isopix.interop.import_run import TENSOR_REPORT

app = App(
    name="convert",
    help="""Convert checkpoints from and to Hugging Face, and from OpenAI and timm.

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
    squash: bool = False,
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
    squash
        Resize images as the image processor does, bilinearly and without regard to their aspect ratio.
    """
    command = ["isopix", *sys.argv[1:]]
    found = convert.huggingface(
        source, out, palette=palette, rows=rows, cols=cols, squash=squash, data=data, command=command
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


Classes = Annotated[
    Path | None,
    Parameter(help="Text file with a class name per line, in the order of the logits; default: the model's."),
]


@app.command(name="huggingface-vit")
def huggingface_vit(
    source: str, out: Out, *, classes: Classes = None, data: Data = None, json: Json = False
) -> None:
    """Convert a Hugging Face ViT, in a local folder or on the Hub, to a run folder.

    A model with a class head becomes a fine-tuned run, which isopix evaluate tests.

    Example: isopix convert huggingface-vit google/vit-base-patch16-224 runs/vit

    Parameters
    ----------
    source
        Folder written by save_pretrained, of the model and its image processor, or a Hub repository.
    """
    command = ["isopix", *sys.argv[1:]]
    _print_import(
        convert.huggingface_vit(source, out, classes=classes, data=data, command=command), json=json
    )


@app.command
def mae(source: str, out: Out, *, data: Data = None, json: Json = False) -> None:
    """Convert the encoder of a Hugging Face ViTMAE, in a local folder or on the Hub, to a run folder.

    The decoder is not converted: the run cannot reconstruct images.

    Example: isopix convert mae facebook/vit-mae-base runs/mae

    Parameters
    ----------
    source
        Folder written by save_pretrained, of the model and its image processor, or a Hub repository.
    """
    command = ["isopix", *sys.argv[1:]]
    _print_import(convert.mae(source, out, data=data, command=command), json=json)


@app.command
def timm(source: str, out: Out, *, classes: Classes = None, data: Data = None, json: Json = False) -> None:
    """Convert a Vision Transformer of timm, in a local folder or on the Hub, to a run folder.

    A model with a class head becomes a fine-tuned run, which isopix evaluate tests.

    Example: isopix convert timm timm/vit_base_patch16_224.augreg_in21k_ft_in1k runs/vit

    Parameters
    ----------
    source
        Folder with timm's config.json and model.safetensors or pytorch_model.bin, or a Hub repository.
    """
    command = ["isopix", *sys.argv[1:]]
    _print_import(convert.timm(source, out, classes=classes, data=data, command=command), json=json)


@app.command(name="to-huggingface")
def to_huggingface(run: Path, out: Out, *, plugin: Plugins = None, json: Json = False) -> None:
    """Convert a run to a folder that transformers loads, with image processor and model card.

    An autoregressive model of pixels becomes an ImageGPT, without a class head. A network of patches
    becomes a ViTModel or, if it was fine-tuned on classes, a ViTForImageClassification.

    Example: isopix convert to-huggingface runs/ar exported

    Parameters
    ----------
    run
        Run folder, whose newest checkpoint is converted, or a folder written by isopix.save.
    """
    load_plugins(plugin)
    found = convert.to_huggingface(run, out)
    if json:
        show_json(
            {"folder": str(out), "step": found.step, "class": found.model_class, "skipped": found.skipped}
        )
        return
    say(f"wrote {out}, step {found.step} of {run}")
    for rule, count in found.skipped.items():
        say(f"skipped {count} × {rule}")
    say(f"load with: transformers.{found.model_class}.from_pretrained('{out}')")


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
    rows, cols = found.image_size
    say(f"wrote {out}, for images of {rows}×{cols} pixels")
    say(f"tensor report: {next(out.glob('checkpoints/step-*')) / TENSOR_REPORT}.json")
    verbs = [*(["verify"] if found.predicts_codes else []), *(["evaluate"] if found.classes else []), "probe"]
    say(f"next: {' ; '.join(f'{command_line(verb, out)} --data …' for verb in verbs)}")
