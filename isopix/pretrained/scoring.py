"""Scores of images by a run: likelihood of each image, beside learning-free scores, and AUROC."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from isopix.analysis.results import AUROC, SCORES, ScoredImages, ScoreResult
from isopix.analysis.scores import (
    Frequencies,
    ScoreConfig,
    auroc,
    code_frequencies,
    code_nats,
    score_images,
    summarize,
    surprise_maps,
)
from isopix.core.choices import SplitName
from isopix.data.splits import Hashes, Split
from isopix.plots.images import MappedImages, png_bytes, surprise_grid
from isopix.pretrained.images import DataLike, named_images, select_split
from isopix.pretrained.run import logger
from isopix.runs.load import LoadedRun, training_images
from isopix.storage.arrays import npz_bytes
from isopix.storage.atomic import replace_file, write_csv

LISTED = 5  # images in the table of the least likely ones
MAP_MASKS = 32  # at least, of the surprise maps of a masked model, so that most pixels are predicted


def frequencies_of(loaded: LoadedRun) -> Frequencies | None:
    """Return code frequencies in the run's own training images; None without these or probabilities."""
    head, seed = loaded.recipe.model.head, loaded.recipe.train.seed
    if not head.categorical:
        return None
    try:
        return code_frequencies(loaded.model, head, training_images(loaded), seed)
    except (ValueError, OSError, RuntimeError) as error:
        logger.warning("the unigram scores need the training images of the run, and are left out: %s", error)
        return None


def score_split(
    loaded: LoadedRun,
    source: DataLike | None,
    split: SplitName | None,
    limit: int | None,
    config: ScoreConfig,
    frequencies: Frequencies | None,
    first: ScoredImages | None = None,
) -> ScoredImages:
    """Return the scores of the images of a split, to be compared with those of the `first` dataset."""
    dataset, chosen = select_split(loaded, source, split, limit)
    images: Split = getattr(dataset, chosen)
    if not len(images):
        raise ValueError(f"dataset '{dataset.name}' has no {chosen} images to score")
    scores = score_images(loaded.model, images.images, config, frequencies=frequencies)
    shown = [name for name in (next(iter(scores)), "bits_per_dim") if name in scores]
    names = named_images(loaded, source, {chosen: images})
    measured = loaded.measure(dataset, chosen)
    shared = () if first is None else _shared_warning(first, dataset.name, images)
    warnings = (*measured.warnings, *_seen_warning(loaded, images), *shared)
    return ScoredImages(
        dataset.name,
        chosen,
        replace(measured, warnings=warnings),
        {name: summarize(values, images.groups) for name, values in scores.items()},
        tuple(
            (names[i].short_name, {name: float(scores[name][i]) for name in shown})
            for i in scores[shown[0]].argsort(descending=True, stable=True)[:LISTED].tolist()
        ),
        scores=scores,
        names=[each.name for each in names],
        short_names=[each.short_name for each in names],
        labels=[label or "" for label in dataset.labels_of(images)],
        images=images,
    )


def _seen_warning(loaded: LoadedRun, images: Split) -> tuple[str, ...]:
    count = _num_shared(images.hashes, loaded.seen)
    text = f"{count:,} of {len(images):,} images were used to train the run or to select its step"
    return (f"{text}: it gives them a higher likelihood than new ones",) if count else ()


def _shared_warning(first: ScoredImages, name: str, images: Split) -> tuple[str, ...]:
    count, total = _num_shared(images.hashes, first.images.hashes), len(images)
    if count and count == total == len(first.images):
        return (f"{first.data} and {name} are the same {total:,} images: every AUROC is 0.5",)
    text = f"{count:,} of {total:,} images of {name} are also among those of {first.data}"
    return (f"{text}: the AUROC counts them on both sides",) if count else ()


def _num_shared(hashes: Hashes | None, others: Hashes | None) -> int:
    return 0 if hashes is None or others is None else int(np.isin(hashes.numpy(), others.numpy()).sum())


def compare_scores(first: ScoredImages, second: ScoredImages, seed: int) -> dict[str, AUROC]:
    """Return the AUROC of every score that both have."""
    groups = (first.images.groups, second.images.groups)
    return {
        name: auroc(values.numpy(), second.scores[name].numpy(), groups=groups, seed=seed)
        for name, values in first.scores.items()
        if name in second.scores
    }


def mapped_images(
    loaded: LoadedRun, scored: ScoredImages, maps: int, config: ScoreConfig
) -> list[MappedImages]:
    """Return the images with the highest and lowest scores of the model, with their maps."""
    if not maps:
        return []
    score, values = next(iter(scored.scores.items()))
    count, order = min(maps, len(values) // 2), values.argsort(descending=True, stable=True).tolist()
    masked = score == "masked_loss"
    captions = ("highest loss", "lowest loss") if masked else ("least likely", "most likely")
    shown = dict(zip(captions, (order[:count], order[::-1][:count]), strict=True))
    config = config._replace(num_masks=max(config.num_masks, MAP_MASKS))
    found = []
    for caption, indices in (shown if count else {"surprise": order}).items():
        chosen = scored.images.images[torch.tensor(indices)]
        nats = code_nats(loaded.model, chosen.to(loaded.network.device), config)
        surprise, unit = surprise_maps(loaded.network.codec, nats).numpy(), SCORES[score].split(", ")[-1]
        numbers = [f"{float(values[i]):.4f} {unit}" for i in indices]
        names = [scored.short_names[i] for i in indices]
        found.append(MappedImages(caption, chosen.cpu(), surprise, names, numbers))
    return found


def save_scores(path: Path, result: ScoreResult, pictures: Sequence[MappedImages]) -> ScoreResult:
    """Write the record, scores.csv, surprise.png and surprise.npz; return the result with its path."""
    path.mkdir(parents=True, exist_ok=True)
    rows = [
        [each.data, each.split, i, name, label, *(values[i].item() for values in each.scores.values())]
        for each in ([result.images] if result.against is None else [result.images, result.against])
        for i, (name, label) in enumerate(zip(each.names, each.labels, strict=True))
    ]
    columns = ["data", "split", "index", "name", "label", *result.images.scores]
    write_csv(path / "scores.csv", columns, rows)
    if pictures:
        replace_file(path / "surprise.png", png_bytes(surprise_grid(pictures)))
        maps = {each.caption.replace(" ", "_"): each.maps for each in pictures}
        replace_file(path / "surprise.npz", npz_bytes(maps))
    return result.saved(path)
