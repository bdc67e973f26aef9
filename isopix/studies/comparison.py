"""Compare fine-tuned runs: paired differences of test accuracy over seeds and draws of the labels."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float

from isopix.core.config import from_dict
from isopix.core.overrides import flatten
from isopix.core.stats import GroupLabels, mean_half_width
from isopix.core.text import count_of, naming
from isopix.data.measurement import differences
from isopix.reporting.summary import different_settings
from isopix.runs.image_lists import ClassifiedImages, load_test_images
from isopix.runs.state import read_environment
from isopix.storage.log import read_log
from isopix.storage.result import Measurement
from isopix.storage.run_folder import RunFolder, runs_in
from isopix.studies.results import ComparisonResult, LabelDraw

T = TypeVar("T")

VARIED = ("train.seed", "data.seed", "data.subset", "data.source")  # a source is compared by its fingerprint
TESTED = {"accuracy", "images"}  # in the log record of the test images


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


Pair = tuple[FinishedRun, FinishedRun]  # a run, and that of the baseline


def compare_groups(group: Iterable[Path], baseline: Iterable[Path]) -> ComparisonResult:
    """Compare runs with those of a baseline of the same seeds, draws, labels and test images."""
    own, others = _by_seed_and_draw(group), _by_seed_and_draw(baseline)
    every = {**own, **others}
    seeds, draws = sorted({seed for seed, _ in every}), sorted({draw for _, draw in every})
    for name, runs in {"runs": own, "baseline": others}.items():
        for seed, draw in product(seeds, draws):
            if (seed, draw) not in runs:
                wanted = f"train.seed={seed} data.seed={draw.data_seed} data.subset={draw.subset}"
                raise ValueError(f"the runs are not paired: none of the {name} has {wanted}")
    pairs = [(own[key], others[key]) for key in product(seeds, draws)]
    for pair in pairs:
        _check_pair(*pair)

    def table(place: int, value: Callable[[FinishedRun], T]) -> tuple[tuple[T, ...], ...]:
        found = iter([value(pair[place]) for pair in pairs])
        return tuple(tuple(next(found) for _ in draws) for _ in seeds)

    accuracies, baseline_accuracies = (table(place, lambda run: run.accuracy) for place in (0, 1))
    images, groups = _paired_images(pairs)
    by_design = None if images is None else images.reshape(len(seeds), len(draws), -1)
    return ComparisonResult(
        seeds=tuple(seeds),
        draws=tuple(draws),
        num_images=pairs[0][0].num_images,
        accuracies=accuracies,
        baseline_accuracies=baseline_accuracies,
        difference=crossed_mean(np.array(accuracies) - np.array(baseline_accuracies), by_design, groups),
        settings=different_settings([run.settings for run in pairs[0]]),
        measurements=table(0, lambda run: run.measurement),
        baseline_measurements=table(1, lambda run: run.measurement),
        warnings=tuple(_warnings(pairs, len(seeds), len(draws))),
    )


def _by_seed_and_draw(places: Iterable[Path]) -> dict[tuple[int, LabelDraw], FinishedRun]:
    found = dict[tuple[int, LabelDraw], FinishedRun]()
    for run in [read_finished_run(path) for place in places for path in runs_in(place) or [place]]:
        other = found.setdefault((run.seed, run.draw), run)
        if other is not run:
            raise ValueError(f"{other.path} and {run.path} have the same seed and labels; give one of them")
        first = next(iter(found.values()))
        if different := different_settings([run.settings, first.settings]):
            raise ValueError(f"{run.path} and {first.path} differ in {', '.join(different)}")
    return found


def read_finished_run(path: Path) -> FinishedRun:
    """Read a run folder. Raises ValueError for a run without a test accuracy."""
    folder = RunFolder.open(path)
    environment, recipe = read_environment(folder), folder.read_recipe()
    with naming(str(folder.recipe)):
        settings = flatten(recipe)
        seed, draw = settings["train.seed"], LabelDraw(settings["data.seed"], settings["data.subset"])
    tests = [each for each in read_log(folder.log) if each.get("split") == "test" and each.keys() >= TESTED]
    if not tests:
        raise ValueError(f"{path} has no test accuracy; give fine-tuned runs that are finished")
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


def crossed_mean(
    cells: Float[np.ndarray, "S D"],
    images: Float[np.ndarray, "S D B"] | None = None,
    groups: GroupLabels | None = None,
) -> dict[str, float | None]:
    """Return the mean over seeds and draws of the labels, each a mean of `images`, and half-widths by source.

    Those of one source of variation are 95% intervals by Student's t, None where it does not vary. They add
    in quadrature: in simulations, 94.9% to 99.6% of designs are covered.
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


def _paired_images(pairs: Sequence[Pair]) -> tuple[Float[np.ndarray, "P B"] | None, GroupLabels | None]:
    """Return 1, 0 or -1 for each pair and test image, and the images' groups; None if the images differ."""
    known = [run.images for pair in pairs for run in pair if run.images is not None]
    if len(known) < 2 * len(pairs) or not all(torch.equal(known[0].hashes, each.hashes) for each in known):
        return None, None
    correct = torch.stack([each.correct for each in known]).double().numpy()
    groups = known[0].groups
    return correct[::2] - correct[1::2], None if groups is None else groups.numpy()


def _warnings(pairs: Sequence[Pair], seeds: int, draws: int) -> list[str]:
    measured = (differences([run.measurement for run in pair]) for pair in pairs)
    different = dict.fromkeys(text for texts in measured for text in texts)
    names = dict.fromkeys(text.partition(" (")[0] for text in different)
    if len(names) < len(different):  # the values are others in each pair
        different = names
    found = [f"the runs and the baseline differ in {', '.join(different)}"] if different else []
    for runs in zip(*pairs, strict=True):
        origins = {run.pretrained for run in runs} - {None}
        if 0 < len(origins) < seeds:
            found.append(f"{count_of(len(origins), 'pre-trained network')} for {count_of(seeds, 'seed')}")
    for what, count in (("seed", seeds), ("draw of the labels", draws)):
        if count == 1:
            found.append(f"one {what}: the interval leaves out the variation that another one would add")
    return found
