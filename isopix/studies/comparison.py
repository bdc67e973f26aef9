"""Compare fine-tuned runs: paired differences of test accuracy over seeds and draws of the labels."""

import glob
from collections.abc import Mapping, Sequence
from itertools import product, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from isopix.core.measurement import Measurement
from isopix.core.overrides import flatten
from isopix.core.stats import crossed_mean
from isopix.core.text import command_line
from isopix.data.measurement import described_differences
from isopix.runs.image_lists import ClassifiedImages, load_test_images
from isopix.runs.state import read_environment
from isopix.storage.atomic import read_json
from isopix.storage.log import read_log
from isopix.storage.run_folder import RunFolder
from isopix.studies.results import Comparison, LabelDraw

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

    @property
    def cells(self) -> list[list[FinishedRun]]:
        """The runs by seed (rows) and draw (columns)."""
        return [[self.runs[seed, draw] for draw in self.draws] for seed in self.seeds]


def compare_with(group: Sequence[str], baseline: Sequence[str]) -> Comparison:
    """Compare a group of runs, given by folders and patterns, with a baseline; without one, the runs of
    pre-trained networks with those from scratch in the group.

    Raises ValueError if a run is not finished, if settings differ within a group, and unless each run has a
    counterpart with the same seed, labels, validation and test images.
    """
    name, runs = _title(group), find_runs(group)
    if not baseline:
        return compare_groups(*split_by_origin(name, runs))
    return compare_groups(read_group(name, runs), read_group(_title(baseline), find_runs(baseline)))


def groups_of(places: Sequence[str]) -> list[list[str]]:
    """Return a group for each folder of runs and each pattern; run folders are one group."""
    runs = [place for place in places if is_run(place)]
    return [*filter(None, [runs]), *([place] for place in places if place not in runs)]


def find_runs(places: Sequence[str]) -> list[Path]:
    """Return the fine-tuned runs among run folders, in folders of runs and by patterns such as `runs/a-*`.

    Raises ValueError for a place where there is no run, or none that is fine-tuned.
    """
    found = list[Path]()
    for place in places:
        path = Path(place)
        near = path.iterdir() if path.is_dir() else map(Path, glob.glob(place))  # noqa: PTH207
        runs = [path] if is_run(place) else sorted(each for each in near if is_run(str(each)))
        if not runs:
            raise ValueError(f"no run in {place}; give run folders, a folder of them or a pattern")
        tuned = [each for each in runs if read_json(RunFolder(each).recipe).get("finetune") is not None]
        if not tuned:
            raise ValueError(f"no fine-tuned run in {place}; compare the runs of isopix finetune")
        found += tuned
    return found


def is_run(place: str) -> bool:
    """Return whether a path is a run folder, and not a folder of runs or a pattern."""
    return RunFolder(Path(place)).recipe.is_file()


def read_group(name: str, paths: Sequence[Path]) -> RunGroup:
    """Read finished runs. Raises ValueError for runs without a test accuracy, for two of the same seed and
    draw, for different settings, and where a seed lacks a draw that another one has.
    """
    runs: dict[tuple[int, LabelDraw], FinishedRun] = {}
    for run in map(read_finished_run, paths):
        other = runs.setdefault((run.seed, run.draw), run)
        if other is not run:
            raise ValueError(f"{other.path} and {run.path} have the same seed and labels; give one of them")
        first = next(iter(runs.values()))
        different = _differences(run.settings, first.settings)
        if different:
            raise ValueError(f"{run.path} and {first.path} differ in {_listed(different)}")
    group = RunGroup(name, runs)
    missing = [key for key in product(group.seeds, group.draws) if key not in runs]
    if missing:
        seed, draw = missing[0]
        raise ValueError(
            f"{name} has {len(runs)} of {len(runs) + len(missing)} runs: none with train.seed={seed} "
            f"data.seed={draw.data_seed} data.subset={draw.subset}"
        )
    return group


def split_by_origin(name: str, paths: Sequence[Path]) -> tuple[RunGroup, RunGroup]:
    """Return the runs that started from a pre-trained network, and those from scratch.

    Raises ValueError without one of them, and what `read_group` raises.
    """
    origins = {path: read_environment(RunFolder(path)).pretrained is not None for path in paths}
    tuned, scratch = ([path for path in paths if origins[path] is wanted] for wanted in (True, False))
    if not tuned or not scratch:
        missing = "from scratch" if tuned else "of a pre-trained network"
        raise ValueError(f"{name} has no fine-tuned run {missing}; give a baseline to compare with")
    return read_group("fine-tuned", tuned), read_group("from scratch", scratch)


def read_finished_run(path: Path) -> FinishedRun:
    """Read a run folder. Raises ValueError for a run without a test accuracy."""
    folder = RunFolder.open(path)
    settings, environment = flatten(read_json(folder.recipe)), read_environment(folder)
    tests = [each for each in read_log(folder.log) if each.get("split") == "test" and each.keys() >= TESTED]
    if not tests:
        raise ValueError(f"{path} has no test accuracy yet; resume it with: {command_line('resume', path)}")
    return FinishedRun(
        path=path,
        seed=settings["train.seed"],
        draw=LabelDraw(settings["data.seed"], settings["data.subset"]),
        settings={name: value for name, value in settings.items() if name not in VARIED},
        data=environment.data,
        accuracy=tests[-1]["accuracy"],
        num_images=tests[-1]["images"],
        images=load_test_images(path),
        pretrained=str(environment.pretrained["run"]) if environment.pretrained else None,
        measurement=Measurement.from_dict(tests[-1]["measurement"]),
    )


def compare_groups(group: RunGroup, baseline: RunGroup) -> Comparison:
    """Compare two groups run by run.

    Raises ValueError if they have other seeds or draws, and for runs with other data, labels or test images.
    """
    if group.runs.keys() != baseline.runs.keys():
        raise ValueError(
            f"{group.name} and {baseline.name} are not paired: they have {_design(group)}, and "
            f"{_design(baseline)}"
        )
    for key, run in group.runs.items():
        _check_pair(run, baseline.runs[key])
    accuracies, others = (_accuracies(each) for each in (group, baseline))
    images, groups = _paired_images(group, baseline)
    return Comparison(
        group=group.name,
        baseline=baseline.name,
        seeds=tuple(group.seeds),
        draws=tuple(group.draws),
        num_images=group.cells[0][0].num_images,
        accuracies=tuple(map(tuple, accuracies.tolist())),
        baseline_accuracies=tuple(map(tuple, others.tolist())),
        difference=crossed_mean(accuracies - others, images, groups).as_record(),
        measurements=_measurements(group),
        baseline_measurements=_measurements(baseline),
        notes=tuple(_notes(group, baseline, paired_images=images is not None)),
    )


def _measurements(group: RunGroup) -> tuple[tuple[Measurement, ...], ...]:
    return tuple(tuple(run.measurement for run in row) for row in group.cells)


def _accuracies(group: RunGroup) -> np.ndarray:
    return np.array([[run.accuracy for run in row] for row in group.cells])


def _check_pair(run: FinishedRun, other: FinishedRun) -> None:
    """Raises ValueError if two runs have other images or labels."""
    if run.data != other.data:
        raise ValueError(f"{run.path} and {other.path} have different images, splits or labels")
    hashes = [each.images.hashes for each in (run, other) if each.images is not None]
    if run.num_images != other.num_images or (len(hashes) == 2 and not torch.equal(*hashes)):
        raise ValueError(f"{run.path} and {other.path} were evaluated on different test images")


def _paired_images(group: RunGroup, baseline: RunGroup) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return 1, 0 or -1 for each seed, draw and test image, and the group of each image; None unless all runs
    have the same images.
    """
    found = [run.images for each in (group, baseline) for row in each.cells for run in row]
    known = [images for images in found if images is not None]
    if len(known) < len(found) or not all(torch.equal(known[0].hashes, each.hashes) for each in known):
        return None, None
    correct = torch.stack([each.correct for each in known]).double().numpy()
    correct = correct.reshape(2, len(group.seeds), len(group.draws), -1)
    groups = next((each.groups.numpy() for each in known if each.groups is not None), None)
    return correct[0] - correct[1], groups


def _notes(group: RunGroup, baseline: RunGroup, *, paired_images: bool) -> list[str]:
    """Say what differs between the groups beside their initial weights, and what the interval leaves out."""
    first, other = group.cells[0][0], baseline.cells[0][0]
    different = _differences(first.settings, other.settings)
    pairs = [(run.measurement, baseline.runs[key].measurement) for key, run in group.runs.items()]
    different += dict.fromkeys(text for pair in pairs for text in described_differences(*pair))
    notes = [f"{group.name} and {baseline.name} differ in {_listed(different)}"] if different else []
    for each in (group, baseline):
        origins = {run.pretrained for run in each.runs.values()} - {None}
        if 0 < len(origins) < len(each.seeds):
            networks = f"{len(origins)} pre-trained network{'s' * (len(origins) > 1)}"
            notes.append(f"{each.name}: {networks} for {len(each.seeds)} seeds")
    for what, levels in (("seed", group.seeds), ("draw of the labels", group.draws)):
        if len(levels) == 1:
            notes.append(f"one {what}: the interval leaves out the variation that another one would add")
    if not paired_images:
        notes.append("no interval for new test images: the runs have no test-images.npz of the same images")
    return notes


def _differences(settings: Mapping[str, Any], others: Mapping[str, Any]) -> list[str]:
    names = sorted(settings.keys() | others.keys())
    return [
        f"{name} ({settings.get(name)}, {others.get(name)})"
        for name in names
        if settings.get(name) != others.get(name)
    ]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more settings" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more


def _design(group: RunGroup) -> str:
    draws = ", ".join(f"{draw.data_seed}.{draw.subset}" for draw in group.draws)
    return f"seeds {', '.join(map(str, group.seeds))} and draws (data.seed.subset) {draws}"


def _title(group: Sequence[str]) -> str:
    """Return the name of a folder or pattern, or what the names of several have in common."""
    names = [Path(each).name for each in group]
    common = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in common).rstrip("-_.* ") or names[0]
