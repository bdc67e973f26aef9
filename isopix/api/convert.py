"""Convert models from Python: five functions import the models of others, to_huggingface exports."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from isopix.api.arguments import PathLike, checked
from isopix.api.exporting import exported_model
from isopix.api.results import ConvertOutput
from isopix.codecs import palette_file
from isopix.core.types import Grid
from isopix.interop import hub
from isopix.interop.huggingface.convert import read_imagegpt
from isopix.interop.import_run import import_run
from isopix.interop.imported_model import ImportedModel, squashed
from isopix.interop.openai.convert import read_checkpoint
from isopix.interop.vit.huggingface import read_huggingface_vit, read_mae
from isopix.interop.vit.timm import read_timm
from isopix.pretrained.run import load_network
from isopix.recipes.recipe import Recipe
from isopix.reporting.model_card import model_card
from isopix.reporting.run_reader import read_run_or_model
from isopix.runs.shipped import find_model


@checked
def huggingface(
    source: PathLike,
    out: PathLike,
    *,
    palette: PathLike | None = None,
    rows: int | None = None,
    cols: int | None = None,
    squash: bool = False,
    data: str | None = None,
    command: Sequence[str] = (),
) -> ConvertOutput:
    """Import an ImageGPT model of Hugging Face, a local folder or a name on the Hub, into a run folder.

    `palette` replaces the model's own; `rows` and `cols` give the image size where no file states it; with
    `squash` images are resized as its image processor does, bilinearly and without regard to their aspect
    ratio; `data` names the training images and `command` what was run, for the record. Pickled weights are
    read without executing code. Raises ValueError for an unsupported or damaged model, RuntimeError if it
    cannot be downloaded.
    """
    colors = None if palette is None else palette_file.read_palette(Path(palette)).colors
    grid = _grid(rows, cols)

    def read(folder: Path) -> ImportedModel:
        imported = read_imagegpt(folder, colors, grid=grid)
        return squashed(imported) if squash else imported

    return _import_hub(source, out, read, data, command)


@checked
def openai(
    prefix: PathLike,
    out: PathLike,
    *,
    palette: PathLike,
    rows: int | None = None,
    cols: int | None = None,
    data: str | None = None,
    command: Sequence[str] = (),
) -> ConvertOutput:
    """Import a checkpoint of OpenAI's image-gpt, autoregressive or BERT, into a run folder.

    `prefix` is the path without its endings, as model.ckpt-1000000; `palette` is a palette file, as OpenAI's
    kmeans_centers.npy. TensorFlow is not needed. Raises ValueError for a damaged or unknown checkpoint.
    """
    colors, grid = palette_file.read_palette(Path(palette)).colors, _grid(rows, cols)
    return _import(lambda: read_checkpoint(Path(prefix), colors, grid=grid), out, data, command)


@checked
def huggingface_vit(
    source: PathLike,
    out: PathLike,
    *,
    classes: PathLike | None = None,
    data: str | None = None,
    command: Sequence[str] = (),
) -> ConvertOutput:
    """Import a ViT of Hugging Face, a local folder or a name on the Hub, into a run folder.

    A ViTForImageClassification becomes a fine-tuned run, a ViTModel one without a head. `classes` is a file
    with the name of a class in each line, in the order of the logits; without it they are the model's own.
    Raises ValueError for an unsupported or damaged model, RuntimeError if it cannot be downloaded.
    """
    return _import_hub(
        source, out, lambda folder: read_huggingface_vit(folder, _names(classes)), data, command
    )


@checked
def mae(
    source: PathLike, out: PathLike, *, data: str | None = None, command: Sequence[str] = ()
) -> ConvertOutput:
    """Import the encoder of a ViTMAE of Hugging Face, a local folder or a name on the Hub, into a run folder.

    Its decoder is not imported. Raises ValueError for an unsupported or damaged model, RuntimeError if it
    cannot be downloaded.
    """
    return _import_hub(source, out, read_mae, data, command)


@checked
def timm(
    source: PathLike,
    out: PathLike,
    *,
    classes: PathLike | None = None,
    data: str | None = None,
    command: Sequence[str] = (),
) -> ConvertOutput:
    """Import a Vision Transformer of timm, a folder with `config.json` and weights or a name on the Hub, into
    a run folder; a model with a class head becomes a fine-tuned run.

    `classes` is as for `huggingface_vit`. Raises ValueError for an unsupported or damaged model, RuntimeError
    if it cannot be downloaded.
    """
    return _import_hub(source, out, lambda folder: read_timm(folder, _names(classes)), data, command)


@checked
def to_huggingface(run: str | os.PathLike[str], out: PathLike) -> ConvertOutput:
    """Export a run, or a folder written by `isopix.save`, as a folder that `transformers` loads.

    Writes model, image processor and model card: an autoregressive model of pixels as an ImageGPT, without a
    class head, a network of patches as a ViTModel, with a class head as a ViTForImageClassification. Raises
    ValueError for a model that these cannot represent, or if the folder is not empty.
    """
    path = Path(out)
    source = find_model(Path(run))
    loaded = load_network(source, "cpu")
    exported = exported_model(loaded)
    exported.write(path, card=model_card(read_run_or_model(source), name=path.name, library="transformers"))
    own = loaded.network.tensors()
    tensors = [name for name in own if not name.startswith("codec.") and name not in exported.skipped]
    return _output(
        loaded.recipe,
        path=path,
        step=loaded.step,
        origin=os.fspath(run),
        parameters=sum(own[name].numel() for name in tensors),
        tensors=len(tensors),
        skipped=Counter(exported.skipped.values()),
        model_class=exported.model_class,
    )


def _grid(rows: int | None, cols: int | None) -> Grid | None:
    if rows is None or cols is None:
        if rows != cols:
            raise ValueError("both rows and cols are needed, or neither")
        return None
    return Grid(rows, cols)


def _names(file: PathLike | None) -> tuple[str, ...]:
    """Return the lines of a file. Raises ValueError if there are fewer than two, or equal ones."""
    if file is None:
        return ()
    names = tuple(
        line.strip() for line in Path(file).read_text(encoding="utf-8").splitlines() if line.strip()
    )
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"{file} must name two or more different classes, one in each line")
    return names


def _import_hub(
    source: PathLike,
    out: PathLike,
    read: Callable[[Path], ImportedModel],
    data: str | None,
    command: Sequence[str],
) -> ConvertOutput:
    """Import a local folder, or a model on the Hub, which is then the origin."""

    def read_source() -> ImportedModel:
        imported = read(hub.resolve_path(source, "model folder"))
        return imported if Path(source).exists() else replace(imported, origin=f"Hugging Face {source}")

    return _import(read_source, out, data, command)


def _import(
    read: Callable[[], ImportedModel], out: PathLike, data: str | None, command: Sequence[str]
) -> ConvertOutput:
    run, imported = import_run(read, Path(out), data=data, command=list(command))
    reports = imported.tensor_reports
    return _output(
        imported.recipe,
        path=run.path,
        step=imported.step,
        origin=imported.origin,
        parameters=sum(tensor.numel() for tensor in imported.tensors.values()),
        tensors=sum(not report.skipped for report in reports),
        skipped=Counter(report.skipped for report in reports if report.skipped),
        rounded=sum(bool(report.rounded) for report in reports),
        classes=imported.classes,
    )


def _output(
    recipe: Recipe,
    *,
    path: Path,
    step: int,
    origin: str,
    parameters: int,
    tensors: int,
    skipped: Mapping[str, int],
    rounded: int = 0,
    classes: tuple[str, ...] = (),
    model_class: str = "",
) -> ConvertOutput:
    return ConvertOutput(
        path=path,
        step=step,
        origin=origin,
        depth=recipe.model.depth,
        width=recipe.model.width,
        grid=recipe.grid,
        image_size=(recipe.data.rows, recipe.data.cols),
        parameters=parameters,
        tensors=tensors,
        skipped=dict(skipped),
        rounded=rounded,
        predicts_codes=recipe.predicts_codes,
        classes=classes,
        model_class=model_class,
    )
