"""Claims of the papers that small networks can test, evaluated on three seeds of CIFAR-10.

Contrasts are positive if the claim is true; all seeds are trained before it is evaluated. Pixel models see
16 x 16 pixels; their learning rate is the best of five of the ablation (`bench/results`), which is of the
autoregressive objective alone; fine-tuning uses a tenth of it, patch models the rate of their recipe.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr

from isopix.core.progress import announce
from isopix.plots.curves import probe_points
from isopix.probing.evaluators import LinearProbe
from isopix.recipes import registry
from isopix.recipes.published import FRACTIONS
from isopix.runs.start import with_absolute_paths
from isopix.studies.claims import Contrast, Mean, crossed_estimate, judge
from isopix.studies.inductive_bias.results import ClaimRecord
from isopix.studies.papers.protocol import Setup, low_data_error
from isopix.studies.papers.reproduction import Reproduction
from isopix.studies.papers.trials import NO_TEST, FineTune, Pretrain, Probe, ProtocolTrial, RunVerb

SEEDS = 3
SMALL = ("batch_size=64", "steps=800", "evaluate_every=100", "evaluate_images=1000", NO_TEST)
TUNING = ("train.evaluators=[]", "steps=200", "evaluate_every=25", "data.augment=none")
PROBE_LIMIT = {"limit": 10_000}  # images of each split
LABELS, SUBSETS = (4, 25, 400), 5  # of each class
TARGETS: dict[str, tuple[str, ...]] = {  # of masked patches of 4 x 4 pixels
    "mean color": (),
    "colors": ("codec.kind=downsampled_color",),
    "pixels": ("codec.kind=full_patch", "head.kind=regression"),
}
CLOSE = 2.0  # points, within which fine-tuned accuracies are nearly equal

Found = Mapping[str, Any]  # the records of one seed by trial
Values = Callable[[Found], dict[str, float]]  # the contrasts of a seed by text


class ShapeClaim(NamedTuple):
    """A claim about which of two numbers is larger; `needs` are the names of its trials."""

    values: Values
    paper: str
    place: str
    unit: str
    needs: Sequence[str]

    @property
    def text(self) -> str:
        return (self.values.__doc__ or "").removesuffix(".")


CLAIMS: list[ShapeClaim] = []


def claim(paper: str, place: str, *needs: str, unit: str = "points") -> Callable[[Values], Values]:
    """Register a function, whose docstring is the claim, and which returns contrasts of a seed."""

    def decorate(values: Values) -> Values:
        CLAIMS.append(ShapeClaim(values, paper, place, unit, needs))
        return values

    return decorate


def trials(data: str, seed: int) -> dict[str, ProtocolTrial]:
    """Return the trials of a seed by name."""
    networks = {
        "ar": _network("igpt.tiny", data, seed, "size=16", "lr=0.006"),
        "bert": _network("igpt.tiny_bert", data, seed, "size=16", "lr=0.006"),
    }
    found: dict[str, ProtocolTrial] = {**networks}
    for name, network in networks.items():
        found[f"{name} probe"] = Probe(f"{name}-{seed}-probe", network, None, PROBE_LIMIT)
        found[f"{name} fine-tuned"] = _tuned(f"{name}-{seed}-finetuned", network)
    network = networks["ar"]
    few_labels = PROBE_LIMIT | {"labels": [*LABELS], "subsets": SUBSETS}
    found["few labels"] = Probe(f"ar-{seed}-labels", network, None, few_labels)
    found["classes alone"] = _tuned(f"ar-{seed}-classes", network, "finetune.generative_weight=0.0")
    scratch = Pretrain(f"scratch-{seed}", network.recipe, from_scratch=True)
    for fraction in FRACTIONS:
        few = f"data.labels_per_class={fraction}"
        for source in (network, scratch):
            name = "scratch" if source is scratch else "ar"
            found[f"{name} {fraction}"] = _tuned(f"{name}-{seed}-{fraction.removesuffix('%')}", source, few)
    for target, settings in TARGETS.items():
        of_patches = _network("vit.tiny", data, seed, "size=32", *settings, "codec.patch_size=4")
        own = replace(of_patches, name=f"{target.replace(' ', '-')}-{seed}")
        found[f"{target} probe"] = Probe(f"{own.name}-probe", own, None, PROBE_LIMIT)
    return found


def _network(recipe: str, data: str, seed: int, *settings: str) -> Pretrain:
    options = {"data.source": data, "train.seed": seed}
    resolved = registry.resolve(recipe, options=options, settings=(*SMALL, *settings)).recipe
    probe = LinearProbe(every=100, num_train=2000, num_val=1000)
    return Pretrain(f"{recipe}-{seed}", with_absolute_paths(resolved.updated(evaluators=(probe,))))


def _tuned(name: str, network: Pretrain, *settings: str) -> FineTune:
    return FineTune(name, network, (*TUNING, *settings), ((),))


@claim("igpt", "figure 2", "ar probe")
def middle(found: Found) -> dict[str, float]:
    """Inner layers have the best features."""
    layers = found["ar probe"].network.layers
    inner = max(layers[1:-1], key=lambda each: each.val_accuracy)
    return {"best inner layer − last layer": 100 * (inner.test_accuracy - layers[-1].test_accuracy)}


@claim("igpt", "figure 3", "ar", unit="")
def loss_and_features(found: Found) -> dict[str, float]:
    """The lower the loss, the better the features."""
    points = [each for each in probe_points(found["ar"]) if each.step]
    rank = spearmanr([-each.loss for each in points], [each.accuracy for each in points]).statistic
    rank = 0.0 if np.isnan(rank) else float(rank)  # if all accuracies are equal
    return {"rank correlation of accuracy and falling loss, over checkpoints": rank}


@claim("igpt", "figure 4", "ar probe", "bert probe")
def bert(found: Found) -> dict[str, float]:
    """BERT's features are worse than autoregressive ones."""
    best = {name: 100 * found[f"{name} probe"].best.test_accuracy for name in ("ar", "bert")}
    return {"autoregressive − BERT, best layers": best["ar"] - best["bert"]}


@claim("igpt", "figure 4", "ar fine-tuned", "bert fine-tuned")
def equal(found: Found) -> dict[str, float]:
    """Fine-tuned, both objectives are nearly equal."""
    difference = _tested(found, "ar fine-tuned", "bert fine-tuned")
    text = f"{CLOSE:g} points {{}} (autoregressive − BERT)"
    return {text.format("−"): CLOSE - difference, text.format("+"): CLOSE + difference}


@claim("igpt", "labels of table 4", "few labels")
def few_labels(found: Found) -> dict[str, float]:
    """With few labels, features are better than raw pixels."""
    values = {}
    for count in LABELS:
        errors = [low_data_error(method, count)(found["few labels"]) for method in ("raw pixels", "trained")]
        pixels, features = (each.number for each in errors if each is not None)
        values[f"error of raw pixels − of features, {10 * count:,} labels"] = pixels - features
    return values


@claim("igpt", "section 2.3", "ar fine-tuned", "classes alone")
def joint(found: Found) -> dict[str, float]:
    """Fine-tuning on both losses is better than on classification alone."""
    return {"both losses − classification alone": _tested(found, "ar fine-tuned", "classes alone")}


@claim("vit", "appendix B.1.2", *(f"{target} probe" for target in TARGETS))
def targets(found: Found) -> dict[str, float]:
    """Features of masked patches are better if colors are classified than if pixels are regressed."""
    best = {target: 100 * found[f"{target} probe"].best.test_accuracy for target in TARGETS}
    return {f"{name} − pixels, best layers": best[name] - best["pixels"] for name in ("mean color", "colors")}


@claim("patchformer", "table 1", *(f"{name} {each}" for each in FRACTIONS for name in ("ar", "scratch")))
def from_scratch(found: Found) -> dict[str, float]:
    """With few labels, pre-training (here igpt.tiny) is better than training from scratch."""
    return {
        f"pre-trained − from scratch, {each} of the labels": _tested(found, f"ar {each}", f"scratch {each}")
        for each in FRACTIONS
    }


def _tested(found: Found, first: str, second: str) -> float:
    """Return the difference of two test accuracies, in points."""
    accuracies = (float(found[name].metrics.accuracy) for name in (first, second))
    return 100 * (next(accuracies) - next(accuracies))


def evaluated(claims: Sequence[ShapeClaim], seeds: Sequence[Found]) -> list[ClaimRecord]:
    """Return the verdicts of claims from the records of all seeds; without one, they are not decided."""
    rows = []
    for each in claims:
        values = [each.values(own) for own in seeds if own.keys() >= set(each.needs)]
        contrasts = []
        for text in values[0] if values else ():
            numbers = tuple(own[text] for own in values)
            estimate = crossed_estimate(np.array(numbers)[:, None]) if len(values) == SEEDS else None
            contrasts.append(Contrast(text, each.unit, Mean(estimate, numbers, {})))
        rows.append((each.values.__name__, each.text, f"{each.paper}, {each.place}", contrasts))
    return judge(rows)


def train_claims(path: Path, data: str, seconds: float, speed: float, run_verb: RunVerb) -> None:
    """Run the trials of undecided claims that take `seconds` at `speed` FLOP/s, the cheapest claim first."""
    deadline = time.monotonic() + seconds
    with Reproduction.create(path, Setup("small", data)) as folder:
        for trial in _missing(folder, data):
            started, flops = time.monotonic(), trial.training_flops()
            if started + flops / speed > deadline:
                announce(f"not started: {trial.name}, for want of time; the same command continues")
                return
            folder.run(trial, run_verb)
            if flops and folder.state(trial).status == "done":
                speed = flops / (time.monotonic() - started)


def read_claims(path: Path, data: str) -> list[Found]:
    """Return the records of each seed, by trial, in the folder of `train_claims`."""
    folder, every = Reproduction(path, Setup("small", data)), [trials(data, seed) for seed in range(SEEDS)]
    found = folder.records([trial for own in every for trial in own.values()]) if path.is_dir() else {}
    return [{name: found[trial.name] for name, trial in own.items() if trial.name in found} for own in every]


def _missing(folder: Reproduction, data: str) -> Iterator[ProtocolTrial]:
    """Yield the trials that are not done, with those that they need, of the cheapest claim first."""
    seeds, done = [trials(data, seed) for seed in range(SEEDS)], set[str]()

    def left(each: ShapeClaim) -> dict[str, ProtocolTrial]:
        own = [seed[name] for seed in seeds for name in each.needs]
        wanted = {trial.name: trial for last in own for trial in (*last.needs, last)}
        missing = {name: each for name, each in wanted.items() if name not in done}
        return {name: each for name, each in missing.items() if folder.state(each).status != "done"}

    waiting = list(CLAIMS)
    while waiting:
        each = min(waiting, key=lambda one: sum(trial.training_flops() for trial in left(one).values()))
        waiting.remove(each)
        for name, trial in left(each).items():
            done.add(name)
            yield trial
