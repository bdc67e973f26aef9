"""Score images from Python: likelihood of each image, beside learning-free scores, and AUROC."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from isopix.analysis.auroc import auroc
from isopix.analysis.complexity import Frequencies, code_frequencies
from isopix.analysis.likelihood import (
    ScoreConfig,
    code_nats,
    has_likelihood,
    require_scores,
    surprise_maps,
)
from isopix.analysis.scores import SCORES, score_images
from isopix.api.arguments import NonNegative, PathLike, checked
from isopix.api.score_output import ScoredImages, ScoreOutput, results_folder
from isopix.core.choices import Count, SplitName
from isopix.core.device import DeviceLike, Precision
from isopix.core.types import Images
from isopix.data.dataset import ImageDataset
from isopix.data.image_names import image_names
from isopix.data.splits import Split
from isopix.plots.images import MappedImages, png_bytes, surprise_grid
from isopix.pretrained.images import select_split
from isopix.pretrained.run import DataLike, RunLike, evaluation_data, logger, open_run
from isopix.runs.load import LoadedRun, training_images
from isopix.storage.atomic import replace_file, write_csv, write_json
from isopix.storage.provenance import settings_hash, with_provenance

MAP_MASKS = 32  # at least, of the surprise maps of a masked model, so that most pixels are predicted


@checked
def score(
    run: RunLike,
    *,
    data: DataLike | None = None,
    split: SplitName | None = None,
    limit: Count | None = None,
    against: DataLike | None = None,
    out: PathLike | None = None,
    maps: NonNegative = 8,
    masks: Count = 8,
    precision: Precision = "fp32",
    seed: int = 0,
    device: DeviceLike = "auto",
) -> ScoreOutput:
    """Score images by their likelihood under an autoregressive run, in nats per code and bits per dimension,
    or by the loss of a masked run under `masks` random masks, next to the sizes of PNG and WebP files and the
    unigram baseline; of two datasets, also the AUROC of each score between `data` and `against`.

    Scores (CSV, JSON) and the surprise maps of the `maps` least and most likely images (PNG) are saved in
    `out`, by default in the run's `scores` folder. The images are those of a split, by default test, or all
    of another dataset without splits; those that the run was trained on are left out, unless its training
    split is requested. Raises ValueError for a model that is neither autoregressive nor masked.
    """
    config = ScoreConfig(masks, seed, precision)
    with open_run(run, device) as (folder, model):
        loaded = model.loaded
        require_scores(loaded.model)
        loaded.require_decoder("score")
        path = results_folder(out, None if folder is None else folder.scores)
        frequencies = _frequencies(loaded)
        scored, images = _scored(loaded, (data, split, limit), config, frequencies)
        other = None
        if against is not None:
            other, others = _scored(loaded, (against, None, limit), config, frequencies)
            other = other.with_warnings(_shared_warning(scored, images, other, others))
        pictures = _pictures(loaded, images, scored, maps, config)
    found = {} if other is None else _compared(scored, other, seed)
    settings = {"limit": limit, "masks": masks, "seed": seed, "precision": precision}
    record: dict[str, Any] = {"kind": "scores", "step": loaded.step, **settings, **scored.record}
    record["against"] = None if other is None else other.record
    record["auroc"] = {name: each._asdict() for name, each in found.items()}
    if path is not None and out is None:
        path /= _folder_name(loaded.step, record)
    output = ScoreOutput(scored, other, found, with_provenance(record), path)
    if path is not None:
        _save(path, output, pictures)
    return output


def _folder_name(step: int, record: dict[str, Any]) -> str:
    given = {key: record[key] for key in ("limit", "masks", "seed", "precision")}
    hashes = [each and each["measurement"]["images_hash"] for each in (record, record["against"])]
    return f"{step:08d}-{record['data']}-{record['split']}-{settings_hash({**given, 'images': hashes})}"


def _frequencies(loaded: LoadedRun) -> Frequencies | None:
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


def _scored(
    loaded: LoadedRun,
    given: tuple[DataLike | None, SplitName | None, int | None],
    config: ScoreConfig,
    frequencies: Frequencies | None,
) -> tuple[ScoredImages, Split]:
    """Return the scores of the images of a split, and the split. Raises ValueError if it has none."""
    source, split, limit = given
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
    measurement = loaded.measure(dataset, chosen)
    scored = ScoredImages(dataset.name, chosen, names, labels, scores, measurement, images.groups)
    return scored.with_warnings(_seen_warning(loaded, images)), images


def _seen_warning(loaded: LoadedRun, images: Split) -> tuple[str, ...]:
    """Return a warning if images are among those that the run was trained on."""
    if loaded.seen is None or images.hashes is None:
        return ()
    count = int(np.isin(images.hashes.numpy(), loaded.seen.numpy()).sum())
    text = f"{count:,} of {len(images):,} images were used to train the run or to select its step"
    return (f"{text}: it gives them a higher likelihood than new ones",) if count else ()


def _shared_warning(
    first: ScoredImages, images: Split, second: ScoredImages, others: Split
) -> tuple[str, ...]:
    """Return a warning if images of the second dataset are also in the first."""
    if images.hashes is None or others.hashes is None:
        return ()
    count, total = int(np.isin(others.hashes.numpy(), images.hashes.numpy()).sum()), len(others)
    if count == total == len(images):
        return (f"{first.data} and {second.data} are the same {total:,} images: every AUROC is 0.5",)
    text = f"{count:,} of {total:,} images of {second.data} are also among those of {first.data}"
    return (f"{text}: the AUROC counts them on both sides",) if count else ()


def _compared(scored: ScoredImages, other: ScoredImages, seed: int) -> dict[str, Any]:
    """Return the AUROC of every score that both have."""
    groups = (scored.groups, other.groups)
    return {
        name: auroc(values.numpy(), other.scores[name].numpy(), groups=groups, seed=seed)
        for name, values in scored.scores.items()
        if name in other.scores
    }


def _pictures(
    loaded: LoadedRun, images: Split, scored: ScoredImages, maps: int, config: ScoreConfig
) -> list[MappedImages]:
    """Return the images with the highest and the lowest scores of the model, with their maps; the image, if
    there is only one.
    """
    count = min(maps, len(images) // 2)
    if not maps or not len(images):
        return []
    order, (score, values) = scored.order, next(iter(scored.scores.items()))
    likely = has_likelihood(loaded.model, loaded.recipe.model.head)
    captions = ("least likely", "most likely") if likely else ("highest loss", "lowest loss")
    config = config._replace(num_masks=max(config.num_masks, MAP_MASKS))
    shown = dict(zip(captions, (order[:count], order.flip(0)[:count]), strict=True))
    found = []
    for caption, indices in (shown if count else {"surprise": order}).items():
        chosen: Images = images.images[indices]
        nats = code_nats(loaded.model, chosen.to(loaded.network.device), config)
        surprise = surprise_maps(loaded.network.codec, nats).numpy()
        names, unit = scored.short_names(indices.tolist()), SCORES[score].split(", ")[-1]
        numbers = [f"{value:.4f} {unit}" for value in values[indices].tolist()]
        found.append(MappedImages(caption, chosen.cpu(), surprise, names, numbers))
    return found


def _save(path: Path, output: ScoreOutput, pictures: list[MappedImages]) -> None:
    """Write scores.csv, scores.json and, if there are maps, surprise.png with the numbers in surprise.npz."""
    path.mkdir(parents=True, exist_ok=True)
    rows = output.images.rows + ([] if output.against is None else output.against.rows)
    write_csv(path / "scores.csv", list(rows[0]), [list(each.values()) for each in rows])
    write_json(path / "scores.json", {**output.record, "images": rows})
    if pictures:
        replace_file(path / "surprise.png", png_bytes(surprise_grid(pictures)))
        arrays: dict[str, Any] = {each.caption.replace(" ", "_"): each.maps for each in pictures}
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)
        replace_file(path / "surprise.npz", content.getvalue())
