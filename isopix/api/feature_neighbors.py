"""Near-duplicates and outliers of images from Python, by the features of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isopix.analysis.neighbors import Neighbors, SimilarPairs, nearest_neighbors
from isopix.api.arguments import NonNegative, PathLike, checked
from isopix.api.neighbors_output import (
    DuplicatePair,
    ImagesOf,
    NamedImage,
    NeighborsOutput,
    Outlier,
    save_neighbors,
)
from isopix.core.choices import Count, Range, SplitName
from isopix.core.device import DeviceLike, Precision
from isopix.core.progress import track
from isopix.core.text import printable
from isopix.core.types import Images
from isopix.data.dataset import ImageDataset
from isopix.data.image_names import image_names
from isopix.data.sources.base import SPLIT_NAMES
from isopix.data.splits import Split
from isopix.model.pool import Pool
from isopix.pretrained.images import results_folder
from isopix.pretrained.model import PretrainedModel
from isopix.pretrained.run import (
    DataLike,
    RunLike,
    check_size,
    evaluation_data,
    load_images,
    open_run,
    sample_of_each,
)
from isopix.probing.features import iter_features
from isopix.reporting.run_record import read_run
from isopix.runs.load import LoadedRun
from isopix.storage.provenance import settings_hash, with_provenance
from isopix.storage.run_folder import RunFolder

Similarity = Annotated[float, Range(low=-1, high=1)]


PAIRS_AT_ONCE = 1_000  # whose pixels are in memory


@checked
def neighbors(
    run: RunLike,
    *,
    data: DataLike | None = None,
    split: SplitName | None = None,
    limit: Count | None = None,
    threshold: Similarity = 0.95,
    num_neighbors: Count = 10,
    layer: int | None = None,
    pool: Pool | None = None,
    out: PathLike | None = None,
    pictures: NonNegative = 24,
    precision: Precision = "fp32",
    device: DeviceLike = "auto",
) -> NeighborsOutput:
    """Find near-duplicates, pairs of images whose features have a cosine similarity of at least `threshold`,
    and outliers, by the mean cosine distance to the `num_neighbors` nearest images.

    Features are those of `layer`, by default the best of the run's probe, else the middle one, pooled and
    standardized over the images. The images are those of a split, or of all splits. Lists (CSV), a record
    (JSON) and the first `pictures` of both lists (PNG) are saved in `out`, by default in the run's
    `neighbors` folder. Raises ValueError for a layer that does not exist.
    """
    with open_run(run, device) as (folder, model):
        target = results_folder(
            None if out is None else Path(out), None if folder is None else folder.neighbors
        )
        splits, names, dataset = _images(model.loaded, data, split, limit)
        chosen = _layer(model, layer, folder)
        features = _features(model, splits, chosen, pool or model.pool, precision)
        found = nearest_neighbors(
            features, num_neighbors=num_neighbors, threshold=threshold, device=model.network.device
        )
    settings: dict[str, Any] = {"layer": chosen, "pool": pool or model.pool, "precision": precision}
    settings |= {"limit": limit, "threshold": threshold, "num_neighbors": num_neighbors}
    measured = [model.loaded.measure(dataset, name).to_dict() for name in splits]
    record: dict[str, Any] = {"kind": "neighbors", "step": model.loaded.step, "data": dataset.name}
    record |= {**settings, "num_duplicates": found.pairs.total, "measurements": measured}
    if out is None and target is not None:
        hashes = [each["images_hash"] for each in measured]
        target /= f"{model.loaded.step:08d}-{dataset.name}-{settings_hash({**settings, 'images': hashes})}"
    images = partial(_selected, splits)
    output = _output(found, names, images, with_provenance(record), target)
    if target is not None:
        save_neighbors(target, output, images, found, pictures)
    return output


def _images(
    loaded: LoadedRun, data: DataLike | None, split: SplitName | None, limit: int | None
) -> tuple[dict[SplitName, Split], list[NamedImage], ImageDataset]:
    """Return the splits with images, all names, and the dataset. Raises ValueError without any image."""
    if isinstance(data, ImageDataset):
        check_size(data, loaded)
        dataset, config = sample_of_each(data, limit), None
    else:
        config = evaluation_data(loaded, data)
        whole = config if split is not None else replace(config, holdout=0.0)  # one split, if it has one
        dataset = sample_of_each(load_images(whole), limit)
    dataset = replace(dataset, seen_known=loaded.seen_known)
    asked = SPLIT_NAMES if split is None else (split,)
    splits: dict[SplitName, Split] = {name: getattr(dataset, name) for name in asked}
    splits = {name: each for name, each in splits.items() if len(each)}
    if not splits:
        raise ValueError(f"dataset '{dataset.name}' has no {split or ''} images".replace("  ", " "))
    names = []
    for name, each in splits.items():
        words = [""] * len(each) if config is None else image_names(config, each)
        names += [NamedImage(name, index, printable(word)) for index, word in enumerate(words)]
    return splits, names, dataset


def _layer(model: PretrainedModel, layer: int | None, folder: RunFolder | None) -> int:
    """Return the layer that was asked for, or the best of the run's probe, or the middle one."""
    if layer is not None:
        if not 0 <= layer <= model.depth:
            raise ValueError(f"layer {layer} does not exist; layers are 0 to {model.depth}")
        return layer
    probe = None if folder is None else read_run(folder).probe
    return (model.depth + 1) // 2 if probe is None else probe.network.best.layer


def _features(
    model: PretrainedModel, splits: Mapping[SplitName, Split], layer: int, pool: Pool, precision: Precision
) -> Float[Tensor, "N D"]:
    """Return the pooled features of one layer."""
    network, parts, done = model.network.truncated(layer), [], 0
    with track("computing features", sum(map(len, splits.values()))) as count:
        for split in splits.values():
            for batch in iter_features(network, split.images, pool=pool, precision=precision):
                parts.append(batch[-1].clone())  # without the other layers, which share its memory
                done += len(parts[-1])
                count(done)
    return torch.cat(parts)


def _selected(splits: Mapping[SplitName, Split], indices: Int[Tensor, " n"]) -> Images:
    """Return images by their index over all splits."""
    found, ends = [], torch.tensor([len(each) for each in splits.values()]).cumsum(0)
    parts = list(splits.values())
    for index in indices.tolist():
        part = int((ends <= index).sum())
        local = index - (int(ends[part - 1]) if part else 0)
        found.append(parts[part].images[local : local + 1].cpu())
    return torch.cat(found)


def _pixel_differences(pairs: SimilarPairs, images: ImagesOf) -> list[float]:
    """Return the mean absolute difference of the pixels of each pair."""
    found: list[float] = []
    chunks = zip(*(torch.split(each, PAIRS_AT_ONCE) for each in pairs[:2]), strict=True)
    for first, second in chunks if pairs.total else ():
        difference = images(first).int() - images(second).int()
        found += difference.abs().float().mean((1, 2, 3)).tolist()
    return found


def _output(
    found: Neighbors,
    names: Sequence[NamedImage],
    images: ImagesOf,
    record: Mapping[str, Any],
    path: Path | None,
) -> NeighborsOutput:
    columns = (*(each.tolist() for each in found.pairs[:3]), _pixel_differences(found.pairs, images))
    duplicates = [
        DuplicatePair(value, names[first], names[second], difference)
        for first, second, value, difference in zip(*columns, strict=True)
    ]
    order, nearest = (
        found.distances.argsort(descending=True, stable=True).tolist(),
        found.indices[:, 0].tolist(),
    )
    distances = found.distances.tolist()
    outliers = [Outlier(distances[i], names[i], names[nearest[i]]) for i in order]
    return NeighborsOutput(duplicates, found.pairs.total, outliers, record, path)
