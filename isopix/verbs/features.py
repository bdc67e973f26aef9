"""`isopix features` and `predict`: a table of features, or of predicted classes, with a row per image."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from isopix.core import choices
from isopix.core.verb import verb
from isopix.finetuning.results import PredictionResult
from isopix.probing.results import FeaturesResult
from isopix.verbs import options
from isopix.verbs.options import DeviceLike, FullPrecision, Limit, OtherImages, RunLike, TrainingData

if TYPE_CHECKING:
    from isopix.pretrained.model import PretrainedModel

Splits = Annotated[choices.SplitName | None, "Split of the dataset. Default: all images."]
Layer = Annotated[
    int | None,
    "Layer of the features, 0 to depth. Default: the best layer of the run's probe, or the middle layer.",
]
Pooling = Annotated[choices.Pool | None, "Pooling over positions; flatten keeps all. Default: the recipe's."]
TableFile = Annotated[Path, "File to write: .parquet, .npz or .csv."]


@verb()
def features(
    run: RunLike,
    *settings: options.DataSettings,
    out: TableFile,
    data: OtherImages = None,
    split: Splits = None,
    limit: Limit = None,
    layer: Layer = None,
    pool: Pooling = None,
    precision: FullPrecision = "fp32",
    device: DeviceLike = "auto",
) -> FeaturesResult:
    """Write features of images to a table, with file, content hash, split and label.

    The run's own images have the run's splits, other datasets their own. Features are float32, of shape
    [rows columns D] with --pool flatten. They are computed and written in batches, to limit memory use.

    Example: isopix features runs/photos --data photos --out features.parquet
    """
    from isopix.model.positions import pooled_width
    from isopix.pretrained.images import named_splits
    from isopix.pretrained.run import open_run
    from isopix.probing.features import iter_layer
    from isopix.storage.tables import WRITERS, write_rows

    with open_run(run, device, out=out, suffixes=tuple(WRITERS)) as (_, model):
        loaded, pooled = model.loaded, pool or model.pool
        chosen = default_layer(run, model) if layer is None else layer
        images = named_splits(loaded, data, split, limit, settings)
        splits, names = images.splits, images.names
        hashes = [each.hashes for each in splits.values() if each.hashes is not None]
        grid, width = model.network.backbone.grid, loaded.recipe.model.width
        shape = (*grid, width) if pooled == "flatten" else (pooled_width(pooled, grid, width),)
        batches = iter_layer(model.network, splits.values(), chosen, pooled, precision)
        columns: dict[str, list[str | None]] = {
            "file": [each.name or None for each in names],
            "hash": [f"{number:016x}" for each in hashes for number in each.tolist()],
            "split": [each.split for each in names],
            "label": [label for each in splits.values() for label in images.dataset.labels_of(each)],
        }
        write_rows(out, columns, (batch.view(-1, *shape).numpy() for batch in batches))
    result = FeaturesResult(
        data=images.dataset.name,
        step=loaded.step,
        layer=chosen,
        pool=pooled,
        precision=precision,
        num_images=len(names),
        shape=shape,
        measurements=tuple(loaded.measure(images.dataset, name) for name in splits),
    )
    return result.saved(out)


TopK = Annotated[choices.Count, "Classes to write per image, limited to the number of classes."]
SHOWN = 10  # images of the printed table
PredictionFile = Annotated[Path, "File to write: .csv or .parquet."]


@verb()
def predict(
    run: RunLike,
    *settings: options.DataSettings,
    out: PredictionFile,
    data: TrainingData = None,
    top_k: TopK = 5,
    precision: options.Precision = None,
    device: DeviceLike = "auto",
) -> PredictionResult:
    """Classify images with a fine-tuned run, and write classes and probabilities to a table.

    Labels are not needed. A file that cannot be read has an empty class, and the reason in the column
    `problem`. Images are masked as in the run's evaluation.

    Example: isopix predict runs/classes --data photos --out predictions.csv
    """
    from collections import Counter

    from isopix.data.load import open_source
    from isopix.data.sources.base import joined
    from isopix.finetuning.evaluate import predict_source
    from isopix.pretrained.images import evaluation_data
    from isopix.pretrained.run import default_precision, open_run
    from isopix.storage.tables import write_columns

    with open_run(run, device, out=out, suffixes=(".csv", ".parquet")) as (_, model):
        tuned, config = model.loaded.finetuned(), evaluation_data(model.loaded, data).updated(settings)
        source, count = open_source(config)(), min(top_k, len(model.classes))
        chosen = precision or default_precision(run, model)
        images = joined([*source.splits.values()])
        found = predict_source(tuned, images, config.centered(), top_k=count, precision=chosen)
        rows = list(found)
    columns: dict[str, list[Any]] = {"file": [*map(images.image_name, range(len(rows)))]}
    for place in range(count):
        end = f"_{place + 1}" if place else ""
        read = [None if isinstance(row, str) else (row[0][place], row[1][place]) for row in rows]
        columns[f"class{end}"] = [each and model.classes[each[0]] for each in read]
        columns[f"probability{end}"] = [each and each[1] for each in read]
    columns["problem"] = [row if isinstance(row, str) else None for row in rows]
    write_columns(out, columns)
    classes = [name or problem for name, problem in zip(columns["class"], columns["problem"], strict=True)]
    result = PredictionResult(
        data=source.name,
        step=model.loaded.step,
        num_images=len(rows),
        counts=Counter(each for each in columns["class"] if each is not None),
        first=tuple(zip(columns["file"], classes, columns["probability"], strict=True))[:SHOWN],
        columns=columns,
        warnings=source.notes,
    )
    return result.saved(out)


def default_layer(run: RunLike, model: "PretrainedModel") -> int:
    """Return the best layer of the newest probe of a run, or else the middle one."""
    from isopix.pretrained.model import PretrainedModel
    from isopix.reporting.run_record import read_run_or_model
    from isopix.runs.load import find_model

    saved = None if isinstance(run, PretrainedModel) else read_run_or_model(find_model(Path(run))).probe
    return (model.depth + 1) // 2 if saved is None else saved.best.layer
