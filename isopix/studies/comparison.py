"""Compare fine-tuned runs: paired differences of test accuracy over seeds and draws of the labels."""

import glob
import math
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float

from isopix.core.config import from_dict
from isopix.core.overrides import flatten
from isopix.core.stats import GroupLabels, mean_half_width
from isopix.core.text import command_line, count_of, naming
from isopix.data.measurement import differences
from isopix.runs.image_lists import ClassifiedImages, load_test_images
from isopix.runs.load import find_model
from isopix.runs.state import read_environment
from isopix.storage.log import read_log
from isopix.storage.result import Measurement
from isopix.storage.run_folder import RunFolder, no_folder
from isopix.studies.results import Comparison, LabelDraw

T = TypeVar("T")

VARIED = ("train.seed", "data.seed", "data.subset", "data.source")  # a source is compared by its fingerprint
TESTED = {"accuracy", "images"}  # in the log record of the test images
MAX_LISTED = 8  # differing settings that a note lists


class FinishedRun(NamedTuple):
    """A fine-tuned run with its test accuracy; `pretrained` is the run that it started from, if any."""

    path: Path
    seed: int
    draw: LabelDraw
    settings: Mapping[str, Any]
    data: str
    accuracy: float
    num_images: int
    images: ClassifiedImages | None
    pretrained: str | None
    measurement: Measurement  # of the accuracy


class RunGroup(NamedTuple):
    """Runs of the same settings, one for each seed and each draw of the labels."""

    name: str
    runs: Mapping[tuple[int, LabelDraw], FinishedRun]

    @property
    def seeds(self) -> list[int]:
        return sorted({seed for seed, _ in self.runs})

    @property
    def draws(self) -> list[LabelDraw]:
        return sorted({draw for _, draw in self.runs})

    def table(self, value: Callable[[FinishedRun], T]) -> tuple[tuple[T, ...], ...]:
        """Return a value of each run, by seed (rows) and draw (columns)."""
        return tuple(tuple(value(self.runs[seed, draw]) for draw in self.draws) for seed in self.seeds)

    def __str__(self) -> str:
        draws = ", ".join(f"{draw.data_seed}.{draw.subset}" for draw in self.draws)
        return f"seeds {', '.join(map(str, self.seeds))} and draws (data.seed.subset) {draws}"


def compare_with(group: Sequence[str], baseline: Sequence[str]) -> Comparison:
    """Compare runs with a baseline, or pre-trained ones with those from scratch, of the same images."""
    name, runs = _title(group), list(map(read_finished_run, find_runs(group)))
    if baseline:
        others = list(map(read_finished_run, find_runs(baseline)))
        return compare_groups(gather(name, runs), gather(_title(baseline), others))
    tuned, scratch = ([run for run in runs if (run.pretrained is None) is other] for other in (False, True))
    if not tuned or not scratch:
        missing = "from scratch" if tuned else "of a pre-trained network"
        raise ValueError(f"{name} has no fine-tuned run {missing}; give a baseline to compare with")
    return compare_groups(gather("fine-tuned", tuned), gather("from scratch", scratch))


def groups_of(places: Sequence[str]) -> list[list[str]]:
    """Return a group for each folder of runs and each pattern; run folders are one group."""
    runs = [place for place in places if is_run(place)]
    return [*filter(None, [runs]), *([place] for place in places if place not in runs)]


def find_runs(places: Sequence[str]) -> list[Path]:
    """Return the fine-tuned runs among run folders, in folders of runs and by patterns such as `runs/a-*`."""
    found = list[Path]()
    for place in places:
        path = Path(place)
        near = path.iterdir() if path.is_dir() else map(Path, glob.glob(place))  # noqa: PTH207
        if not path.exists() and not glob.has_magic(place):
            raise ValueError(no_folder(path))
        runs = [path] if is_run(path) else sorted(filter(is_run, near))
        if not runs:
            raise ValueError(f"no run in {place}; give run folders, a folder of them or a pattern")
        tuned = [each for each in runs if RunFolder(each).read_recipe().get("finetune") is not None]
        if not tuned:
            raise ValueError(f"no fine-tuned run in {place}; others are compared in pairs: compare A B")
        found += tuned
    return found


def is_run(source: object) -> bool:
    """Return whether this is a run folder or a model, and not a folder of runs or a pattern."""
    if not isinstance(source, str | os.PathLike):
        return True
    return RunFolder(find_model(Path(source))).recipe.is_file()


def gather(name: str, found: Sequence[FinishedRun]) -> RunGroup:
    """Return a group of runs of the same settings, which must have each draw of each seed once."""
    runs: dict[tuple[int, LabelDraw], FinishedRun] = {}
    for run in found:
        other = runs.setdefault((run.seed, run.draw), run)
        if other is not run:
            raise ValueError(f"{other.path} and {run.path} have the same seed and labels; give one of them")
        if different := _differences(run.settings, found[0].settings):
            raise ValueError(f"{run.path} and {found[0].path} differ in {_listed(different)}")
    group = RunGroup(name, runs)
    missing = [key for key in product(group.seeds, group.draws) if key not in runs]
    if missing:
        seed, draw = missing[0]
        raise ValueError(
            f"{name} has {len(runs)} of {len(runs) + len(missing)} runs: none with train.seed={seed} "
            f"data.seed={draw.data_seed} data.subset={draw.subset}"
        )
    return group


def read_finished_run(path: Path) -> FinishedRun:
    """Read a run folder. Raises ValueError for a run without a test accuracy."""
    folder = RunFolder.open(path)
    environment = read_environment(folder)
    with naming(str(folder.recipe)):
        settings = flatten(folder.read_recipe())
        seed, draw = settings["train.seed"], LabelDraw(settings["data.seed"], settings["data.subset"])
    tests = [each for each in read_log(folder.log) if each.get("split") == "test" and each.keys() >= TESTED]
    if not tests:
        raise ValueError(f"{path} has no test accuracy yet; resume it with: {command_line('resume', path)}")
    return FinishedRun(
        path=path,
        seed=seed,
        draw=draw,
        settings={name: value for name, value in settings.items() if name not in VARIED},
        data=environment.data,
        accuracy=tests[-1]["accuracy"],
        num_images=tests[-1]["images"],
        images=load_test_images(path),
        pretrained=environment.pretrained.run if environment.pretrained else None,
        measurement=from_dict(Measurement, tests[-1]["measurement"]),
    )


def compare_groups(group: RunGroup, baseline: RunGroup) -> Comparison:
    """Compare two groups run by run, which must have the same seeds, draws, labels and test images."""
    if group.runs.keys() != baseline.runs.keys():
        names = f"{group.name} and {baseline.name}"
        raise ValueError(f"{names} are not paired: they have {group}, and {baseline}")
    for key, run in group.runs.items():
        _check_pair(run, baseline.runs[key])
    accuracies, others = (each.table(lambda run: run.accuracy) for each in (group, baseline))
    images, groups = _paired_images(group, baseline)
    return Comparison(
        group=group.name,
        baseline=baseline.name,
        seeds=tuple(group.seeds),
        draws=tuple(group.draws),
        num_images=next(iter(group.runs.values())).num_images,
        accuracies=accuracies,
        baseline_accuracies=others,
        difference=crossed_mean(np.array(accuracies) - np.array(others), images, groups),
        measurements=group.table(lambda run: run.measurement),
        baseline_measurements=baseline.table(lambda run: run.measurement),
        notes=tuple(_notes(group, baseline, paired_images=images is not None)),
    )


def crossed_mean(
    cells: Float[np.ndarray, "S D"],
    images: Float[np.ndarray, "S D B"] | None = None,
    groups: GroupLabels | None = None,
) -> dict[str, float | None]:
    """Return the mean over seeds and draws of the labels, each a mean of `images`, and half-widths by source.

    Those of one source of variation are 95 % intervals by Student's t, None where it does not vary. They add
    in quadrature: in simulations, 94.9 % to 99.6 % of designs are covered.
    """
    seeds, draws = mean_half_width(cells.mean(1)), mean_half_width(cells.mean(0))
    new_images = None if images is None else mean_half_width(images.mean((0, 1)), groups)
    known = [each for each in (seeds, draws) if each is not None]
    return {
        "mean": float(cells.mean()),
        "seeds": seeds,
        "draws": draws,
        "images": new_images,
        "half_width": math.hypot(*known) if known else None,
        "half_width_new_images": None if new_images is None else math.hypot(*known, new_images),
    }


def _check_pair(run: FinishedRun, other: FinishedRun) -> None:
    if run.data != other.data:
        raise ValueError(f"{run.path} and {other.path} have different images, splits or labels")
    hashes = [each.images.hashes for each in (run, other) if each.images is not None]
    if run.num_images != other.num_images or (len(hashes) == 2 and not torch.equal(*hashes)):
        raise ValueError(f"{run.path} and {other.path} were evaluated on different test images")


def _paired_images(group: RunGroup, baseline: RunGroup) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return 1, 0 or -1 for each seed, draw and test image, and the images' groups; None if they differ."""
    tables = [each.table(lambda run: run.images) for each in (group, baseline)]
    found = [images for table in tables for row in table for images in row]
    known = [images for images in found if images is not None]
    if len(known) < len(found) or not all(torch.equal(known[0].hashes, each.hashes) for each in known):
        return None, None
    correct = torch.stack([each.correct for each in known]).double().numpy()
    correct = correct.reshape(2, len(group.seeds), len(group.draws), -1)
    groups = next((each.groups.numpy() for each in known if each.groups is not None), None)
    return correct[0] - correct[1], groups


def _notes(group: RunGroup, baseline: RunGroup, *, paired_images: bool) -> list[str]:
    pairs = [(run, baseline.runs[key]) for key, run in group.runs.items()]
    run, other = pairs[0]
    different = _differences(run.settings, other.settings)
    measured = (differences([one.measurement, two.measurement]) for one, two in pairs)
    different += dict.fromkeys(text for texts in measured for text in texts)
    notes = [f"{group.name} and {baseline.name} differ in {_listed(different)}"] if different else []
    for each in (group, baseline):
        origins = {run.pretrained for run in each.runs.values()} - {None}
        if 0 < len(origins) < len(each.seeds):
            networks = count_of(len(origins), "pre-trained network")
            notes.append(f"{each.name}: {networks} for {count_of(len(each.seeds), 'seed')}")
    for what, levels in (("seed", group.seeds), ("draw of the labels", group.draws)):
        if len(levels) == 1:
            notes.append(f"one {what}: the interval leaves out the variation that another one would add")
    if not paired_images:
        notes.append("no interval for new test images: the runs have no test-images.npz of the same images")
    return notes


def _differences(settings: Mapping[str, Any], others: Mapping[str, Any]) -> list[str]:
    pairs = {name: (settings.get(name), others.get(name)) for name in sorted(settings.keys() | others.keys())}
    return [f"{name} ({own}, {other})" for name, (own, other) in pairs.items() if own != other]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more settings" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more


def _title(group: Sequence[str]) -> str:
    names = [Path(each).name for each in group]
    return os.path.commonprefix(names).rstrip("-_.* ") or names[0]  # noqa: RUF071  of letters
