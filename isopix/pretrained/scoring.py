"""Scores of images by a run: likelihood of each image, beside learning-free scores, and AUROC."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from isopix.analysis.auroc import auroc
from isopix.analysis.complexity import Frequencies, code_frequencies
from isopix.analysis.likelihood import ScoreConfig, code_nats, has_likelihood, surprise_maps
from isopix.analysis.results import AUROC, SCORES, ScoredImages, ScoreResult
from isopix.analysis.scores import score_images, summarize
from isopix.core.choices import SplitName
from isopix.core.text import printable
from isopix.data.dataset import ImageDataset
from isopix.data.image_names import image_names, shared_folder, short_name
from isopix.data.splits import Split
from isopix.plots.images import MappedImages, png_bytes, surprise_grid
from isopix.pretrained.images import select_split
from isopix.pretrained.run import DataLike, evaluation_data, logger
from isopix.runs.load import LoadedRun, training_images
from isopix.storage.atomic import replace_file, write_csv

LISTED = 5  # images in the table of the least likely ones
MAP_MASKS = 32  # at least, of the surprise maps of a masked model, so that most pixels are predicted


class Scored(NamedTuple):
    """Scored images with their pixels, and the short names of all."""

    images: ScoredImages
    split: Split
    short_names: Sequence[str]

    @property
    def order(self) -> list[int]:
        """The indices of the images by the score of the model, the least likely first."""
        scores = next(iter(self.images.scores.values()))
        return list(scores.argsort(descending=True, stable=True).tolist())

    def with_warnings(self, texts: Sequence[str]) -> "Scored":
        """Return the same with these warnings, too, in the measurement record."""
        measured = self.images.measurement
        noted = replace(measured, warnings=(*measured.warnings, *texts))
        return self._replace(images=replace(self.images, measurement=noted))


def frequencies_of(loaded: LoadedRun) -> Frequencies | None:
    """Return the frequencies of codes in the run's own training images; None where these cannot be had, and
    for heads without probabilities.
    """
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
) -> Scored:
    """Return the scores of the images of a split. Raises ValueError if it has none."""
    dataset, chosen = select_split(loaded, source, split, limit)
    images: Split = getattr(dataset, chosen)
    if not len(images):
        raise ValueError(f"dataset '{dataset.name}' has no {chosen} images to score")
    head = loaded.recipe.model.head
    scores = score_images(loaded.model, head, images.images, config, frequencies=frequencies)
    labels = [""] * len(images) if images.labels is None else [dataset.classes[i] for i in images.labels]
    names = [""] * len(images)
    if not isinstance(source, ImageDataset):
        names = image_names(evaluation_data(loaded, source), images)
    folder = shared_folder(names)
    short = [short_name(printable(each), folder) if each else f"{chosen} {i}" for i, each in enumerate(names)]
    scored = ScoredImages(
        dataset.name,
        chosen,
        loaded.measure(dataset, chosen),
        {name: summarize(values, images.groups) for name, values in scores.items()},
        (),
        scores=scores,
        names=names,
        labels=labels,
    )
    found = Scored(scored, images, short).with_warnings(_seen_warning(loaded, images))
    shown = [name for name in (next(iter(scores)), "bits_per_dim") if name in scores]
    listed = tuple((short[i], {name: float(scores[name][i]) for name in shown}) for i in found.order[:LISTED])
    return found._replace(images=replace(found.images, least_likely=listed))


def _seen_warning(loaded: LoadedRun, images: Split) -> tuple[str, ...]:
    """Return a warning if images are among those that the run was trained on."""
    if loaded.seen is None or images.hashes is None:
        return ()
    count = int(np.isin(images.hashes.numpy(), loaded.seen.numpy()).sum())
    text = f"{count:,} of {len(images):,} images were used to train the run or to select its step"
    return (f"{text}: it gives them a higher likelihood than new ones",) if count else ()


def shared_warning(first: Scored, second: Scored) -> tuple[str, ...]:
    """Return a warning if images of the second dataset are also in the first."""
    own, others = first.split.hashes, second.split.hashes
    if own is None or others is None:
        return ()
    names = first.images.data, second.images.data
    count, total = int(np.isin(others.numpy(), own.numpy()).sum()), len(others)
    if count == total == len(own):
        return (f"{names[0]} and {names[1]} are the same {total:,} images: every AUROC is 0.5",)
    text = f"{count:,} of {total:,} images of {names[1]} are also among those of {names[0]}"
    return (f"{text}: the AUROC counts them on both sides",) if count else ()


def compare_scores(first: Scored, second: Scored, seed: int) -> dict[str, AUROC]:
    """Return the AUROC of every score that both have."""
    groups = (first.split.groups, second.split.groups)
    return {
        name: auroc(values.numpy(), second.images.scores[name].numpy(), groups=groups, seed=seed)
        for name, values in first.images.scores.items()
        if name in second.images.scores
    }


def mapped_images(loaded: LoadedRun, scored: Scored, maps: int, config: ScoreConfig) -> list[MappedImages]:
    """Return the images with the highest and the lowest scores of the model, with their maps; the image, if
    there is only one.
    """
    if not maps:
        return []
    count, order = min(maps, len(scored.split) // 2), scored.order
    score, values = next(iter(scored.images.scores.items()))
    likely = has_likelihood(loaded.model, loaded.recipe.model.head)
    captions = ("least likely", "most likely") if likely else ("highest loss", "lowest loss")
    shown = dict(zip(captions, (order[:count], order[::-1][:count]), strict=True))
    config = config._replace(num_masks=max(config.num_masks, MAP_MASKS))
    found = []
    for caption, indices in (shown if count else {"surprise": order}).items():
        chosen = scored.split.images[torch.tensor(indices)]
        nats = code_nats(loaded.model, chosen.to(loaded.network.device), config)
        surprise, unit = surprise_maps(loaded.network.codec, nats).numpy(), SCORES[score].split(", ")[-1]
        numbers = [f"{float(values[i]):.4f} {unit}" for i in indices]
        names = [scored.short_names[i] for i in indices]
        found.append(MappedImages(caption, chosen.cpu(), surprise, names, numbers))
    return found


def save_scores(path: Path, result: ScoreResult, pictures: Sequence[MappedImages]) -> ScoreResult:
    """Write the record, the scores of each image as scores.csv and, if there are maps, surprise.png with the
    numbers in surprise.npz. Return the result with its path.
    """
    path.mkdir(parents=True, exist_ok=True)
    both = (result.images,) if result.against is None else (result.images, result.against)
    rows = [row for each in both for row in _rows(each)]
    write_csv(path / "scores.csv", list(rows[0]), [list(each.values()) for each in rows])
    if pictures:
        replace_file(path / "surprise.png", png_bytes(surprise_grid(pictures)))
        arrays: dict[str, Any] = {each.caption.replace(" ", "_"): each.maps for each in pictures}
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)
        replace_file(path / "surprise.npz", content.getvalue())
    return result.saved(path)


def _rows(scored: ScoredImages) -> list[Mapping[str, Any]]:
    """Return a record of each image."""
    columns = {name: values.tolist() for name, values in scored.scores.items()}
    about = {"data": scored.data, "split": scored.split}
    return [
        {**about, "index": i, "name": printable(name), "label": label}
        | {column: values[i] for column, values in columns.items()}
        for i, (name, label) in enumerate(zip(scored.names, scored.labels, strict=True))
    ]
