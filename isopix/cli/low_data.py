"""`isopix lowdata`: the error of a run's features, and of the run fine-tuned, with few labels."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from isopix.cli.console import Device, Json, Limit, OtherLabelled, say, show_json, show_table
from isopix.cli.loading import data_for, images_for, learnt_before, network_of
from isopix.cli.progress import counting
from isopix.core import device as devices
from isopix.core.device import Precision
from isopix.data.dataset import ImageSet
from isopix.papers.igpt import LOW_DATA, LowData
from isopix.probe.low_data import FewLabels
from isopix.probe.results import STRENGTHS, Protocol
from isopix.runs.low_data import Question, by_features, by_finetuning, tuning
from isopix.runs.training import RunObserver
from isopix.storage.atomic import write_json
from isopix.storage.provenance import record, tag
from isopix.storage.run_folder import RunFolder
from isopix.train.trainer import Record

Results = dict[str, list[FewLabels]]
STRONGER = tuple(strength for strength in STRENGTHS if strength >= 1e-4)  # few images part by any weights
PAPERS = (4, 25, 400)  # images of each class (iGPT section 4.5)

Labels = Annotated[list[int], Parameter(consume_multiple=True, help="images of each class, several numbers")]


def lowdata(
    run: Path,
    *settings: str,
    labels: Labels | None = None,
    subsets: int = 5,
    data: OtherLabelled = None,
    limit: Limit = None,
    finetune: int = 0,
    precision: Precision | None = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Error on the test images with few labels, mean and deviation over random balanced subsets.

    Logistic regression on the features of one layer, which validation chooses over all subsets, beside the
    network untrained and raw pixels; with --finetune also the run fine-tuned. The numbers, and the runs that
    were fine-tuned, are kept in the run's `lowdata` folder.

    Example: isopix lowdata runs/photos --labels 4 25 400 --subsets 5

    Parameters
    ----------
    run
        The run folder.
    settings
        Of fine-tuning, as path=value: those of `isopix finetune`.
    subsets
        How many random subsets of each number, drawn by the run's seed.
    finetune
        Also fine-tune the run on every subset, for so many steps at most.
    precision
        Of the network's arithmetic; the run's own without it.
    """
    if settings and not finetune:
        raise ValueError(f"'{settings[0]}' is a setting of fine-tuning; give --finetune STEPS as well")
    question = Question(tuple(labels or PAPERS), subsets)
    folder, loaded = RunFolder.open(run), network_of(run, device)
    images = images_for(loaded, data, limit)
    given: dict[str, Any] = {"images": data_for(loaded, data, limit), "tested": len(images.test)}
    words, out = (f"steps={finetune}", *settings), folder.path / "lowdata"
    how = tuning(run, words, **given, out=out, device=devices.pick(device)) if finetune else None
    with counting("features", 1) as done:
        results = by_features(
            loaded,
            images,
            question,
            precision=precision or loaded.recipe.train.precision,
            protocol=Protocol(strengths=STRONGER, weaker=()),
            progress=done,
        )
    if how:
        results["fine-tuned"] = by_finetuning(how, question, RunObserver() if json else RunObserver(_tell))
    facts: dict[str, Any] = {
        "data": images.name,
        "limit": limit,
        "seed": loaded.recipe.train.seed,
        "subsets": subsets,
    }
    if how:
        facts |= {"finetune": finetune, "settings": settings}
    values = {"kind": "lowdata", "step": loaded.step, **facts, "results": _told(results)}
    path = _keep(folder, values, tag({**facts, "labels": question.labels}))
    if json:
        show_json({**values, "record": str(path)})
    else:
        _show(results, images)
        for text in learnt_before(loaded.recipe.data, data):
            say(f"note: {text}")
        say(f"wrote {path}")


def _told(results: Results) -> dict[str, list[dict[str, Any]]]:
    """Every number, and the mean and deviation that the table shows."""
    return {
        whose: [{**asdict(each), "mean": each.mean, "deviation": each.deviation} for each in found]
        for whose, found in results.items()
    }


def _keep(run: RunFolder, values: dict[str, Any], mark: str) -> Path:
    folder = run.path / "lowdata"
    folder.mkdir(exist_ok=True)
    path = folder / f"lowdata-{values['step']:08d}-{values['data']}-{mark}.json"
    write_json(path, record(values))
    return path


def _show(results: Results, images: ImageSet) -> None:
    """Ours, and on CIFAR-10 the paper's table under it."""
    counts = [each.images for each in next(iter(results.values()))]
    rows = [
        (
            _named(whose, found, len(images.test)),
            *(f"{each.mean:.1%} ± {each.deviation:.1%}" for each in found),
        )
        for whose, found in results.items()
    ]
    title = (
        f"Error on {len(images.test):,} test images of {images.name}: mean ± deviation over "
        f"{len(next(iter(results.values()))[0].errors)} random subsets; layer and strength chosen on "
        f"{len(images.validation):,} validation images"
    )
    show_table(title, ["images with labels", *(f"{count:,}" for count in counts)], rows)
    known = sorted({count for each in LOW_DATA for count in each.errors} & set(counts))
    if images.name == "cifar10" and known:
        published = [(each.method, *(_published(each, count) for count in known)) for each in LOW_DATA]
        show_table(
            "Published on all of CIFAR-10 (iGPT table 4)",
            ["images with labels", *map("{:,}".format, known)],
            published,
        )


def _named(whose: str, found: list[FewLabels], tested: int) -> str:
    if found[0].tested != tested:
        whose += f", {found[0].tested:,} test images"
    layers = [str(each.layer) for each in found if each.layer is not None]
    return f"{whose}, layer {'/'.join(layers)}" if layers and whose != "raw pixels" else whose


def _published(row: LowData, count: int) -> str:
    if count not in row.errors:
        return ""
    return "{:.1f}% ± {:.1f}%".format(*row.errors[count])


def _tell(event: Record) -> None:
    """Of a fine-tuning run its notes and its end alone."""
    if event["kind"] == "note":
        say(event["text"])
    elif event.get("split") == "test":
        say(f"fine-tuned to step {event['step']}: {1 - event['accuracy']:.1%} error")
