"""Generate images from Python: sample, complete and reconstruct."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch

from isopix.api.arguments import checked
from isopix.api.completion_record import LATER_PIXELS, later_known, mask_name, recorded_mask
from isopix.api.generation_results import (
    CompletionOutput,
    NearestTrainingImages,
    ReconstructionOutput,
    SampleOutput,
)
from isopix.api.image_selection import first_images, select_split
from isopix.api.nearest import compare_with_training
from isopix.core.choices import Count, SplitName
from isopix.core.device import DeviceLike, Precision
from isopix.core.measurement import Measurement
from isopix.core.types import Images
from isopix.data.dataset import ImageDataset
from isopix.data.measurement import images_hash
from isopix.data.splits import Split
from isopix.generate.config import Order
from isopix.generate.mask import MaskLike, chosen_mask, nearest_visible_pixels
from isopix.generate.sample import require
from isopix.objectives.visible_baselines import NearestVisible
from isopix.plots import images as pictures
from isopix.pretrained.inputs import ImagesLike, as_images, require_images
from isopix.pretrained.model import PretrainedModel
from isopix.pretrained.run import DataLike, RunLike, logger, open_run, require_writable
from isopix.runs.load import LoadedRun
from isopix.storage.atomic import replace_file, write_json
from isopix.storage.provenance import settings_hash, with_provenance
from isopix.storage.run_folder import RunFolder


@checked
def sample(
    run: RunLike,
    count: Count = 16,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    precision: Precision | None = None,
    compile: bool | None = None,
    nearest: bool = False,
    device: DeviceLike = "auto",
) -> SampleOutput:
    """Sample images from an autoregressive run, as many at a time as the free memory allows; saves a PNG grid
    in its `samples` folder. Image i is a function of the seed and i. `temperature` below 1 sharpens the
    distribution; `top_k` and `top_p` truncate it. `precision` is that of the KV cache and of matrix products:
    on GPUs of all of them, on CPUs with instructions for bf16 of those by large matrices; by default fp32, or
    that of the model. With `compile` the step is compiled by torch.compile, which takes 10 to 30 seconds the
    first time and a few seconds later; by default on GPUs only.
    With `nearest` the nearest training image of each is found, too, and a second grid saved.

    Raises ValueError for a masked model and for invalid arguments.
    """
    with _opened(run, device) as (folder, model):
        sampling = _sampling(model, temperature, top_k, top_p, precision)
        images = model.sample(count, **sampling, compile=compile, seed=seed)
        found = compare_with_training(model.loaded, images) if nearest else None
    loaded = model.loaded
    numbers = {"kind": "samples", "step": loaded.step, "seed": seed, "count": count}
    numbers |= sampling
    name = f"samples-{loaded.step:08d}-seed{seed}"
    saved = _save_grid(folder, name, pictures.sample_grid(images), numbers)
    if found is None:
        return SampleOutput(images=images, **saved)
    grid = pictures.nearest_grid(images, found.images)
    own = _save_grid(folder, f"nearest-{name}", grid, {**numbers, "kind": "nearest", **found.numbers()})
    return SampleOutput(images=images, nearest=NearestTrainingImages(**found._asdict(), **own), **saved)


@checked
def complete(
    run: RunLike,
    images: ImagesLike | None = None,
    *,
    data: DataLike | None = None,
    split: SplitName | None = None,
    count: Count | None = None,
    rows: int | None = None,
    mask: MaskLike | None = None,
    each: Count = 3,
    order: Order | None = None,
    iterations: Count | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    limit: Count | None = None,
    seed: int = 0,
    precision: Precision | None = None,
    compile: bool | None = None,
    device: DeviceLike = "auto",
) -> CompletionOutput:
    """Complete what a mask hides of images, or all but their first `rows` rows, by default half of them;
    saves a PNG grid in the run's `samples` folder.

    `mask` is bool [H W], True where hidden, or the text of a mask (`isopix complete --help`). An
    autoregressive model samples in raster order and sees the pixels before each one only; a masked model
    sees all that is visible, and fills in hidden positions `inward` from visible ones, or the most
    `confident` or `random` ones first, in 24 passes or `iterations`. The images are those given, or the first
    `count` of a split of `data` or of the run's own dataset, by default 8, or all if there are fewer; each is
    completed `each` times. The other arguments are those of `sample`. Raises ValueError for a model that can
    do neither, and for invalid arguments.
    """
    with _opened(run, device) as (folder, model):
        loaded = model.loaded
        require(loaded.model, "complete")
        loaded.require_decoder("complete")
        chosen = chosen_mask(loaded.network.codec, rows=rows, mask=mask)
        inputs, origin, _ = _inputs(loaded, images, data, split, count, limit)
        sampling = _sampling(model, temperature, top_k, top_p, precision)
        found = model.complete(
            inputs,
            mask=chosen,
            each=each,
            order=order,
            iterations=iterations,
            **sampling,
            compile=compile,
            seed=seed,
        )
    if loaded.recipe.objective.can_sample and later_known(found.mask, loaded.network.codec):
        logger.warning("%s", LATER_PIXELS)
    numbers = {"kind": "completions", "step": loaded.step, "seed": seed, "count": len(inputs)}
    numbers |= {
        "baseline": NearestVisible.name,
        "each": each,
        **origin,
        **recorded_mask(chosen, found),
        **sampling,
    }
    if not loaded.recipe.objective.can_sample:
        numbers |= {"order": order or "inward", "iterations": iterations or 24}
    nearest = nearest_visible_pixels(found.images[:, 0], found.mask)
    grid = pictures.completion_grid(
        inputs, found.mask, found.images, baselines={NearestVisible.name: nearest}
    )
    name = f"completions-{loaded.step:08d}-{mask_name(chosen)}-seed{seed}"
    results = {"likelihood": found.likelihood, "log_likelihood": found.log_likelihood.tolist()}
    saved = _save_grid(folder, name, grid, numbers, results)
    return CompletionOutput(completions=found, inputs=inputs, **saved)


@checked
def reconstruct(
    run: RunLike,
    images: ImagesLike | None = None,
    *,
    data: DataLike | None = None,
    split: SplitName | None = None,
    count: Count | None = None,
    limit: Count | None = None,
    seed: int = 0,
    device: DeviceLike = "auto",
) -> ReconstructionOutput:
    """Mask pixels or patches as in training and predict them with a masked run; saves a PNG grid in its
    `samples` folder.

    The images are chosen as by `complete`. Raises ValueError for an autoregressive model.
    """
    with _opened(run, device) as (folder, model):
        loaded = model.loaded
        require(loaded.model, "reconstruct")
        loaded.require_decoder("reconstruct")
        inputs, origin, measured = _inputs(loaded, images, data, split, count, limit)
        result = model.reconstruct(inputs, seed=seed)
    numbers = {"kind": "reconstructions", "step": loaded.step, "seed": seed, "count": len(inputs)}
    numbers |= {
        "baseline": NearestVisible.name,
        **origin,
        "accuracy": result.accuracy,
        "baselines": dict(result.baselines),
    }
    measured = replace(measured, baselines=result.baselines)
    numbers |= {"measurement": measured.to_dict()}
    name = f"reconstructions-{loaded.step:08d}-seed{seed}"
    nearest = nearest_visible_pixels(result.original, result.pixel_mask)
    predictions = {NearestVisible.name: nearest, "prediction": result.prediction}
    grid = pictures.reconstruction_grid(result.original, result.pixel_mask, predictions, result.target)
    saved = _save_grid(folder, name, grid, numbers)
    return ReconstructionOutput(reconstruction=result, measurement=measured, **saved)


def _sampling(
    model: PretrainedModel,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    precision: Precision | None,
) -> dict[str, Any]:
    """Return the settings of sampling that the record names."""
    precision = precision or model.precision
    return {"temperature": temperature, "top_k": top_k, "top_p": top_p, "precision": precision}


@contextmanager
def _opened(run: RunLike, device: DeviceLike) -> Iterator[tuple[RunFolder | None, PretrainedModel]]:
    """Yield the folder and the network of a run, whose `samples` folder can be written."""
    with open_run(run, device) as (folder, model):
        if folder is not None:
            require_writable(folder.samples)
        yield folder, model


def _inputs(
    loaded: LoadedRun,
    images: ImagesLike | None,
    data: DataLike | None,
    split: SplitName | None,
    count: int | None,
    limit: Count | None,
) -> tuple[Images, dict[str, Any], Measurement]:
    """Return the images to work on, and for the record where they are from and what is measured on them."""
    if images is not None:
        inputs = require_images(as_images(images, loaded)).cpu()
        given, content = len(inputs), images_hash(Split(inputs))
        measured = Measurement(data="", split=None, images=given, available=given, images_hash=content)
        return inputs, {"data": None, "split": None}, loaded.measured(measured)
    found, chosen = select_split(loaded, data, split, limit)
    source = found.name if isinstance(data, ImageDataset) else data or loaded.recipe.data.source
    inputs = first_images(found, chosen, count)
    used: Split = getattr(found, chosen).select(torch.arange(len(inputs)))
    measured = loaded.measure(found, chosen, used)
    return inputs, {"data": os.fspath(source), "split": chosen}, measured


def _save_grid(
    run: RunFolder | None,
    name: str,
    picture: Any,
    numbers: Mapping[str, Any],
    results: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Save a picture, its numbers and `results`, which the hash leaves out, as `samples/NAME-HASH.png` and
    `.json`, nothing without a run; return the picture, its path and the record.
    """
    if run is None:
        return {"record": with_provenance({**numbers, **results}), "path": None, "picture": picture}
    path = run.samples / f"{name}-{settings_hash(numbers)}.png"
    run.samples.mkdir(exist_ok=True)
    replace_file(path, pictures.png_bytes(picture))
    record = with_provenance({**numbers, **results, "picture": path.name})
    write_json(path.with_suffix(".json"), record)
    return {"record": record, "path": path, "picture": picture}
