"""Convert models from Python: huggingface and openai import, to_huggingface exports."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from isopix.api.arguments import checked
from isopix.api.results import ConvertOutput
from isopix.api.run import load_network
from isopix.api.training import PathLike
from isopix.codecs import palette_file
from isopix.core.types import Grid
from isopix.interop import hub
from isopix.interop.huggingface.convert import read_imagegpt, write_imagegpt
from isopix.interop.import_run import import_run
from isopix.interop.imported_model import ImportedModel
from isopix.interop.openai.convert import read_checkpoint
from isopix.reporting.model_card import model_card
from isopix.reporting.run_reader import read_run_or_model


@checked
def huggingface(
    source: PathLike,
    out: PathLike,
    *,
    palette: PathLike | None = None,
    rows: int | None = None,
    cols: int | None = None,
    data: str | None = None,
    command: Sequence[str] = (),
) -> ConvertOutput:
    """Import an ImageGPT model of Hugging Face, a local folder or a name on the Hub, into a run folder.

    `palette` replaces the model's own; `rows` and `cols` give the image size where no file states it; `data`
    names the training images and `command` what was run, for the record. Pickled weights are read without
    executing code. Raises ValueError for an unsupported or damaged model, RuntimeError if it cannot be
    downloaded.
    """
    colors = None if palette is None else palette_file.read_palette(Path(palette)).colors
    grid = _grid(rows, cols)

    def read() -> ImportedModel:
        imported = read_imagegpt(hub.resolve_path(source, "model folder"), colors, grid=grid)
        return imported if Path(source).exists() else replace(imported, origin=f"Hugging Face {source}")

    return _import(read, out, data, command)


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
def to_huggingface(run: str | os.PathLike[str], out: PathLike) -> ConvertOutput:
    """Export a run, or a folder written by `isopix.save`, as a folder that `transformers` loads.

    Writes model, image processor and model card. Raises ValueError for a model that ImageGPT cannot
    represent, or if the folder is not empty.
    """
    path = Path(out)
    loaded = load_network(Path(run), "cpu")
    text = model_card(read_run_or_model(Path(run)), name=path.name, library="transformers")
    write_imagegpt(path, loaded.network, card=text)
    tensors = [tensor for name, tensor in loaded.network.tensors().items() if not name.startswith("codec.")]
    count = sum(tensor.numel() for tensor in tensors)
    return ConvertOutput(
        path=path,
        step=loaded.step,
        origin=os.fspath(run),
        depth=loaded.recipe.model.depth,
        width=loaded.recipe.model.width,
        grid=loaded.recipe.grid,
        parameters=count,
        tensors=len(tensors),
        skipped={},
        rounded=0,
    )


def _grid(rows: int | None, cols: int | None) -> Grid | None:
    if rows is None or cols is None:
        if rows != cols:
            raise ValueError("both rows and cols are needed, or neither")
        return None
    return Grid(rows, cols)


def _import(
    read: Callable[[], ImportedModel], out: PathLike, data: str | None, command: Sequence[str]
) -> ConvertOutput:
    run, imported = import_run(read, Path(out), data=data, command=list(command))
    reports = imported.tensor_reports
    return ConvertOutput(
        path=run.path,
        step=imported.step,
        origin=imported.origin,
        depth=imported.depth,
        width=imported.width,
        grid=imported.grid,
        parameters=sum(tensor.numel() for tensor in imported.tensors.values()),
        tensors=sum(not report.skipped for report in reports),
        skipped=dict(Counter(report.skipped for report in reports if report.skipped)),
        rounded=sum(bool(report.rounded) for report in reports),
    )
