"""`isopix import` and `isopix export`: models of other libraries, and models for them and the Hub."""

import os
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from isopix.core.choices import ExportFormat
from isopix.core.verb import Flat, verb
from isopix.interop.config import ImportConfig
from isopix.interop.results import ExportResult, ImportResult
from isopix.storage.atomic import scratch_folder
from isopix.verbs.options import PathLike, RunLike

if TYPE_CHECKING:
    from isopix.interop.imported_model import ImportedModel
    from isopix.pretrained.model import PretrainedModel

HUB = "hf://"
DEFAULT_IMPORT = ImportConfig()

Source = Annotated[
    PathLike, "Folder with the model's config and weights, the prefix of OpenAI's files, or owner/name."
]
Out = Annotated[PathLike, "Run folder to create; must be new or empty."]
Data = Annotated[str | None, "Dataset that the model was trained on, if known: a name or a path."]


@verb(command="import")
def import_model(
    source: Source, out: Out, *, config: Flat[ImportConfig] = DEFAULT_IMPORT, data: Data = None
) -> ImportResult:
    """Import a model of another library into a run folder; the library is detected from the files.

    Supported: ImageGPT, ViT and the encoder of ViTMAE from Hugging Face, and ViT from timm, in a folder or on
    the Hub (owner/name); OpenAI's Image GPT (TensorFlow is not needed). A ViT with classes becomes a
    fine-tuned run. Pickled weights with anything but tensors are rejected.

    Example: isopix import openai/imagegpt-small runs/imagegpt
    """
    from isopix.interop.imported_model import import_run

    imported = import_run(lambda: _read(source, config), Path(out), data=data)
    recipe = imported.recipe
    return ImportResult(
        origin=imported.origin,
        step=imported.step,
        depth=recipe.model.depth,
        width=recipe.model.width,
        image_size=(recipe.data.rows, recipe.data.cols),
        parameters=sum(tensor.numel() for tensor in imported.tensors.values()),
        tensors=len(imported.tensors) + len(imported.head),
        skipped=Counter(imported.skipped.values()),
        predicts_codes=recipe.predicts_codes,
        classes=imported.classes,
        path=Path(out),
    )


def _read(source: PathLike, config: ImportConfig) -> "ImportedModel":
    from isopix.interop.openai import index_path
    from isopix.interop.read import read_model
    from isopix.storage import hub

    local = Path(source).exists() or index_path(Path(source)).is_file()
    path = Path(source) if local else hub.resolve_path(source, "model folder")
    try:
        imported = read_model(path, config)
    except ValueError as error:
        raise ValueError(f"{os.fspath(source)}: {error}") from None
    return imported if local else replace(imported, origin=f"Hugging Face {source}")


Target = Annotated[
    PathLike, "Folder or file to create, or hf://owner/name: a repository on the Hugging Face Hub."
]
Format = Annotated[
    ExportFormat,
    "huggingface: load with transformers; isopix: load with isopix.load; torch: program of torch.export in a "
    ".pt2 file; onnx: ONNX graph in an .onnx file.",
]
Private = Annotated[bool, "Create a private repository."]
Layer = Annotated[int | None, "Layer of a program's features. Default: class logits, or as in `features`."]


@verb()
def export(
    run: RunLike,
    out: Target,
    *,
    format: Format = "huggingface",
    layer: Layer = None,
    private: Private = False,
) -> ExportResult:
    """Export the model of a run with a model card to a folder or the Hugging Face Hub, or as a program.

    For transformers, an autoregressive model of pixels is exported as ImageGPT, without a class head; a model
    of patches as ViTModel or, if it is fine-tuned, as ViTForImageClassification. For the Hub, log in first
    (hf auth login); the repository is created if it does not exist.

    --format torch or onnx writes a program that maps uint8 images [B 3 H W] of the model's size to class
    logits (fine-tuned runs) or pooled features. It is compared with the model on ten random images.

    Example: isopix export runs/photos hf://me/photos-igpt --format isopix

    Example: isopix export runs/classes classes.onnx --format onnx
    """
    from isopix.interop.export import exported_model
    from isopix.storage import hub

    target = os.fspath(out).removeprefix(HUB)
    to_hub = target != os.fspath(out)
    if private and not to_hub:
        raise ValueError(f"private is for a repository on the Hub, {HUB}owner/name; out is {out}")
    if to_hub:
        hub.require_name(target)
    if format in PROGRAMS:
        return _export_program(run, Path(out), format, layer)
    if layer is not None:
        raise ValueError("layer is for a program: --format torch or onnx")
    model, card = _with_card(run, format, target if to_hub else Path(target).name)
    skipped, load_with = dict[str, str](), f"isopix.load('{target}')"
    with scratch_folder("export") if to_hub else nullcontext("") as temporary:
        folder = Path(temporary) / "model" if to_hub else Path(target)
        if format == "isopix":
            model.save(folder, card=card)
        else:
            exported = exported_model(model.loaded)
            exported.write(folder, card=card)
            skipped = dict(exported.skipped)
            load_with = f"transformers.{exported.model_class}.from_pretrained('{target}')"
        url = hub.upload(folder, target, private=private) if to_hub else ""
    return ExportResult(
        format=format,
        step=model.loaded.step,
        skipped=Counter(skipped.values()),
        load_with=load_with,
        url=url,
        path=None if to_hub else Path(target),
    )


def _with_card(run: RunLike, format: ExportFormat, name: str) -> "tuple[PretrainedModel, str]":
    """Return the model of a run, and its model card; none of a model without a run."""
    from isopix.pretrained.model import PretrainedModel
    from isopix.pretrained.run import load
    from isopix.reporting.run_record import read_run_or_model
    from isopix.reporting.summary import Library, model_card
    from isopix.runs.load import find_model

    if isinstance(run, PretrainedModel):
        return run, ""
    path = find_model(Path(run))
    library: Library = "isopix" if format == "isopix" else "transformers"
    card = model_card(read_run_or_model(path), name=name, library=library)
    return load(path, device="cpu"), card


PROGRAMS = {"torch": (".pt2", "torch.export.load"), "onnx": (".onnx", "onnxruntime.InferenceSession")}


def _export_program(run: RunLike, out: Path, format: ExportFormat, layer: int | None) -> ExportResult:
    from isopix.interop.program import write_program
    from isopix.pretrained.run import open_run
    from isopix.verbs.features import default_layer

    suffix, load = PROGRAMS[format]
    if out.suffix != suffix:
        raise ValueError(f"out is {out}; allowed for --format {format}: FILE{suffix}")
    with open_run(run, "cpu", out=out, suffixes=(suffix,)) as (_, model):
        if layer is None and not model.classes:
            layer = default_layer(run, model)
        error = write_program(model.loaded, out, layer=layer, pool=model.pool)
        result = ExportResult(
            format=format,
            step=model.loaded.step,
            layer=layer,
            classes=model.classes if layer is None else (),
            image_size=model.network.codec.image_size,
            max_error=error,
            load_with=f"{load}('{out}')",
        )
    return result.saved(out)
