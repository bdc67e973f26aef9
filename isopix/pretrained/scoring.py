"""Scores of images by a run: the likelihood of each, next to the size of a file, and their maps and files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from isopix.analysis.results import SCORES, ScoreResult
from isopix.analysis.scores import ScoreConfig, code_nats, score_images, summarize, surprise_maps
from isopix.core.choices import SplitName
from isopix.data.splits import Split
from isopix.plots.images import MappedImages, png_bytes, surprise_grid
from isopix.pretrained.images import DataLike, evaluation_data, named_images, select_split
from isopix.runs.load import LoadedRun
from isopix.storage.arrays import npz_bytes
from isopix.storage.atomic import replace_file, write_csv

LISTED = 5  # images in the table of the least likely ones
MAP_MASKS = 32  # at least, of the surprise maps of a masked model, so that most pixels are predicted


def score_split(
    loaded: LoadedRun,
    source: DataLike | None,
    split: SplitName | None,
    limit: int | None,
    config: ScoreConfig,
) -> ScoreResult:
    """Return the scores of the images of a split."""
    dataset, chosen = select_split(loaded, source, split, limit)
    images: Split = getattr(dataset, chosen)
    if not len(images):
        raise ValueError(f"dataset '{dataset.name}' has no {chosen} images to score")
    scores = score_images(loaded.model, images.images, config)
    shown = [name for name in (next(iter(scores)), "bits_per_dim") if name in scores]
    names = named_images(evaluation_data(loaded, source), {chosen: images})
    measured = loaded.measure(dataset, chosen)
    measured = replace(measured, warnings=(*measured.warnings, *_seen_warning(loaded, images)))
    return ScoreResult(
        step=loaded.step,
        precision=config.precision,
        data=dataset.name,
        split=chosen,
        measurement=measured,
        warnings=measured.warnings,
        summary={name: summarize(values, images.groups) for name, values in scores.items()},
        least_likely=tuple(
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
    if images.hashes is None or loaded.seen is None:
        return ()
    count = int(np.isin(images.hashes.numpy(), loaded.seen.numpy()).sum())
    text = f"{count:,} of {len(images):,} images were used to train the run or to select its step"
    return (f"{text}: it gives them a higher likelihood than new ones",) if count else ()


def mapped_images(
    loaded: LoadedRun, scored: ScoreResult, maps: int, config: ScoreConfig
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
        [result.data, result.split, i, name, label, *(values[i].item() for values in result.scores.values())]
        for i, (name, label) in enumerate(zip(result.names, result.labels, strict=True))
    ]
    write_csv(path / "scores.csv", ["data", "split", "index", "name", "label", *result.scores], rows)
    if pictures:
        replace_file(path / "surprise.png", png_bytes(surprise_grid(pictures)))
        maps = {each.caption.replace(" ", "_"): each.maps for each in pictures}
        replace_file(path / "surprise.npz", npz_bytes(maps))
    return result.saved(path)
