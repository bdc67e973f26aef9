"""`isopix convert` and `isopix publish`: checkpoints of others, and models on the Hugging Face Hub."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from isopix.core.choices import Count, ExportFormat
from isopix.core.files import read_regular
from isopix.core.verb import verb
from isopix.interop.results import ConversionResult, PublicationResult
from isopix.storage.atomic import scratch_folder
from isopix.verbs.options import PathLike, RunLike

if TYPE_CHECKING:
    from isopix.core.types import Grid
    from isopix.interop.imported_model import ImportedModel
    from isopix.recipes.recipe import Recipe

Source = Annotated[
    PathLike, "Folder with the model's config and weights, or a repository on the Hub (owner/name)."
]
Out = Annotated[PathLike, "Folder to create; it must be new or empty."]
Rows = Annotated[Count | None, "Image rows, where no file states them; with --cols."]
Cols = Annotated[Count | None, "Image columns, where no file states them; with --rows."]
Data = Annotated[str | None, "Dataset that the model was trained on, if known: a name or a path."]
Classes = Annotated[
    PathLike | None, "Text file with a class name per line, in the order of the logits; default: the model's."
]


@verb(command="convert huggingface")
def convert_huggingface(
    source: Source,
    out: Out,
    *,
    palette: Annotated[PathLike | None, "Palette file to use instead of the model's own."] = None,
    rows: Rows = None,
    cols: Cols = None,
    squash: Annotated[
        bool, "Resize images as the image processor does, bilinearly, regardless of aspect."
    ] = False,
    data: Data = None,
) -> ConversionResult:
    """Convert a Hugging Face ImageGPT, in a local folder or on the Hub, to a run folder.

    Weights may be safetensors or pickled tensors; a pickle with anything but tensors is rejected.

    Example: isopix convert huggingface openai/imagegpt-small runs/imagegpt
    """
    from isopix.codecs.palette_spec import read_palette
    from isopix.interop.imagegpt import read_imagegpt

    colors, grid = None if palette is None else read_palette(Path(palette)).colors, _grid(rows, cols)
    return _imported(
        source, out, data, lambda folder: read_imagegpt(folder, colors, grid=grid, squash=squash)
    )


@verb(command="convert openai")
def convert_openai(
    prefix: Annotated[
        PathLike, "Checkpoint path without file suffixes: model.ckpt-1 for model.ckpt-1.index."
    ],
    out: Out,
    *,
    palette: Annotated[PathLike, "Its palette: OpenAI's kmeans_centers.npy, or a palette file."],
    rows: Rows = None,
    cols: Cols = None,
    data: Data = None,
) -> ConversionResult:
    """Convert an OpenAI image-gpt checkpoint, autoregressive or BERT, to a run folder, without TensorFlow.

    Example: isopix convert openai igpt-s/model.ckpt-1000000 runs/igpt-s --palette kmeans_centers.npy
    """
    from isopix.codecs.palette_spec import read_palette
    from isopix.interop.openai import read_checkpoint

    colors, grid = read_palette(Path(palette)).colors, _grid(rows, cols)
    return _imported(prefix, out, data, lambda path: read_checkpoint(path, colors, grid=grid), on_hub=False)


@verb(command="convert huggingface-vit")
def convert_huggingface_vit(
    source: Source, out: Out, *, classes: Classes = None, data: Data = None
) -> ConversionResult:
    """Convert a Hugging Face ViT, in a folder or on the Hub, to a run, fine-tuned if it has classes.

    Example: isopix convert huggingface-vit google/vit-base-patch16-224 runs/vit
    """
    from isopix.interop.vit_read import read_huggingface_vit

    return _imported(source, out, data, lambda folder: read_huggingface_vit(folder, _names(classes)))


@verb(command="convert mae")
def convert_mae(source: Source, out: Out, *, data: Data = None) -> ConversionResult:
    """Convert the encoder of a Hugging Face ViTMAE, in a local folder or on the Hub, without the decoder.

    Example: isopix convert mae facebook/vit-mae-base runs/mae
    """
    from isopix.interop.vit_read import read_huggingface_vit

    return _imported(source, out, data, lambda folder: read_huggingface_vit(folder, model_type="vit_mae"))


@verb(command="convert timm")
def convert_timm(source: Source, out: Out, *, classes: Classes = None, data: Data = None) -> ConversionResult:
    """Convert a ViT of timm, in a folder or on the Hub, to a run, fine-tuned if it has classes.

    Example: isopix convert timm timm/vit_base_patch16_224.augreg_in21k_ft_in1k runs/vit
    """
    from isopix.interop.vit_read import read_timm

    return _imported(source, out, data, lambda folder: read_timm(folder, _names(classes)))


@verb(command="convert to-huggingface")
def convert_to_huggingface(
    run: Annotated[PathLike, "Run folder, or a folder written by isopix.save."], out: Out
) -> ConversionResult:
    """Convert a run to a folder that transformers loads, with image processor and model card.

    An autoregressive model of pixels becomes an ImageGPT, without a class head; one of patches a ViTModel or,
    fine-tuned on classes, a ViTForImageClassification.

    Example: isopix convert to-huggingface runs/ar exported
    """
    from isopix.interop.export import exported_model
    from isopix.pretrained.run import load_network
    from isopix.reporting.run_record import read_run_or_model
    from isopix.reporting.summary import model_card
    from isopix.runs.load import find_model

    path, folder = Path(out), find_model(Path(run))
    loaded = load_network(folder, "cpu")
    exported = exported_model(loaded)
    exported.write(path, card=model_card(read_run_or_model(folder), name=path.name, library="transformers"))
    own = loaded.network.tensors()
    tensors = [name for name in own if not name.startswith("codec.") and name not in exported.skipped]
    return _result(
        loaded.recipe,
        origin=os.fspath(run),
        step=loaded.step,
        parameters=sum(own[name].numel() for name in tensors),
        tensors=len(tensors),
        skipped=Counter(exported.skipped.values()),
        model_class=exported.model_class,
        path=path,
    )


def _grid(rows: int | None, cols: int | None) -> "Grid | None":
    from isopix.core.types import Grid

    if (rows is None) != (cols is None):
        raise ValueError("both rows and cols are needed, or neither")
    return None if rows is None or cols is None else Grid(rows, cols)


def _names(file: PathLike | None) -> tuple[str, ...]:
    if file is None:
        return ()
    names = tuple(filter(None, map(str.strip, read_regular(Path(file)).decode().splitlines())))
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"{file} must name two or more different classes, one in each line")
    return names


def _imported(
    source: PathLike,
    out: PathLike,
    data: str | None,
    read: Callable[[Path], "ImportedModel"],
    *,
    on_hub: bool = True,
) -> ConversionResult:
    from isopix.interop.imported_model import import_run
    from isopix.storage import hub

    def read_named() -> "ImportedModel":
        path = hub.resolve_path(source, "model folder") if on_hub else Path(source)
        try:
            imported = read(path)
        except ValueError as error:
            raise ValueError(f"{os.fspath(source)}: {error}") from None
        is_local = not on_hub or Path(source).exists()
        return imported if is_local else replace(imported, origin=f"Hugging Face {source}")

    imported = import_run(read_named, Path(out), data=data)
    reports = imported.tensor_reports
    return _result(
        imported.recipe,
        origin=imported.origin,
        step=imported.step,
        parameters=sum(tensor.numel() for tensor in imported.tensors.values()),
        tensors=sum(not each.skipped for each in reports),
        skipped=Counter(each.skipped for each in reports if each.skipped),
        rounded=sum(bool(each.rounded) for each in reports),
        classes=imported.classes,
        warnings=imported.notes,
        path=Path(out),
    )


def _result(recipe: "Recipe", **facts: Any) -> ConversionResult:
    return ConversionResult(
        depth=recipe.model.depth,
        width=recipe.model.width,
        image_size=(recipe.data.rows, recipe.data.cols),
        predicts_codes=recipe.predicts_codes,
        **facts,
    )


Format = Annotated[ExportFormat, "isopix: load with isopix.load; huggingface: load with transformers."]


@verb()
def publish(
    run: RunLike,
    name: Annotated[str, "Repository on the Hub: owner/name."],
    *,
    format: Format = "isopix",
    private: Annotated[bool, "Create a private repository."] = False,
) -> PublicationResult:
    """Upload the model of a run, or a folder of `isopix.save`, to the Hugging Face Hub, with a model card.

    Log in first (hf auth login). The repository is created if it does not exist.

    Example: isopix publish runs/photos me/photos-igpt
    """
    from isopix.interop.export import exported_model
    from isopix.pretrained.model import PretrainedModel
    from isopix.pretrained.run import load_network
    from isopix.reporting.run_record import read_run_or_model
    from isopix.reporting.summary import model_card
    from isopix.storage import hub

    if isinstance(run, PretrainedModel):
        model, card = run, ""
    else:
        model = PretrainedModel(load_network(Path(run), "cpu"))
        record = read_run_or_model(Path(run))
        card = model_card(record, name=name, library="isopix" if format == "isopix" else "transformers")
    if format == "isopix":
        return PublicationResult(url=model.publish(name, card=card, private=private), step=model.loaded.step)
    with scratch_folder("convert") as temporary:
        folder = Path(temporary) / "model"
        exported_model(model.loaded).write(folder, card=card)
        return PublicationResult(url=hub.upload(folder, name, private=private), step=model.loaded.step)
