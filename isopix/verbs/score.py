"""`isopix score`: the likelihood of each image, surprise maps, and AUROC between two datasets."""

from pathlib import Path
from typing import Annotated

from isopix.analysis.results import ScoreResult
from isopix.core.choices import Count, NonNegative
from isopix.core.verb import verb
from isopix.verbs.options import DataLike, DeviceLike, FullPrecision, Limit, OtherImages, RunLike, Seed, Split

Against = Annotated[DataLike | None, "Second dataset: AUROC of every score between the two datasets."]
Out = Annotated[Path | None, "Folder for the results. Default: in the run's `scores` folder."]
Maps = Annotated[NonNegative, "Number of least and of most likely images to draw with surprise maps."]
Masks = Annotated[Count, "Number of random masks per image of a masked model."]


@verb()
def score(
    run: RunLike,
    *,
    data: OtherImages = None,
    split: Split = None,
    limit: Limit = None,
    against: Against = None,
    out: Out = None,
    maps: Maps = 8,
    masks: Masks = 8,
    precision: FullPrecision = "fp32",
    seed: Seed = 0,
    device: DeviceLike = "auto",
) -> ScoreResult:
    """Score images: likelihood of each, surprise maps, out-of-distribution AUROC.

    An autoregressive model gives nats per code and bits per dimension of the 24-bit image, next to PNG,
    lossless WebP and the unigram baseline; a masked model its loss under random masks. Writes `score.json`,
    `scores.csv` and `surprise.png`. Likelihood follows the complexity of images: compare the AUROC with
    PNG's.

    Example: isopix score runs/photos --data photos --against other-photos
    """
    from isopix.analysis.scores import ScoreConfig, require_scores
    from isopix.pretrained import scoring
    from isopix.pretrained.images import results_folder
    from isopix.pretrained.run import open_run

    config = ScoreConfig(masks, seed, precision)
    with open_run(run, device) as (folder, model):
        loaded = model.loaded
        require_scores(loaded.model)
        loaded.require_decoder("score")
        path = results_folder(out, None if folder is None else folder.scores)
        frequencies = scoring.frequencies_of(loaded)
        scored = scoring.score_split(loaded, data, split, limit, config, frequencies)
        other = None
        if against is not None:
            other = scoring.score_split(loaded, against, None, limit, config, frequencies, scored)
        pictures = scoring.mapped_images(loaded, scored, maps, config)
    others = () if other is None else other.measurement.warnings
    result = ScoreResult(
        step=loaded.step,
        precision=precision,
        images=scored,
        against=other,
        auroc={} if other is None else scoring.compare_scores(scored, other, seed),
        measurement=scored.measurement,
        warnings=(*scored.measurement.warnings, *others),
    )
    if path is None:
        return result
    own = path if out else result.named(path, loaded.step, scored.data).with_suffix("")
    return scoring.save_scores(own, result, pictures)
