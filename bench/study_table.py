"""The tables of the study of inductive biases, from its committed results, and of its simulation."""

import statistics
from collections import Counter
from functools import cache
from itertools import chain
from typing import Any

from cells import RESULTS, read, table

from isopix.studies.inductive_bias.claims import evaluate_trials
from isopix.studies.inductive_bias.results import STUDY_POOLS, Trial, TrialResult
from isopix.studies.inductive_bias.study import BiasStudy

PAIRS = {
    "`tiny`, repeated on another CPU": ("study-tiny", "study-tiny-repeated"),
    "`small`, bf16 and fp32": ("study-small", "study-small-fp32"),
    "`tiny`, transformers with `init=keras` and `init=keras_mha`": ("study-tiny", "study-tiny-keras-mha"),
}
FALSE = ("does not hold", "holds")
WEAK = 0.8  # power below which a claim is listed


def study_time() -> str:
    """Return how long the tiny study took."""
    found = read("study-tiny-time.json")
    seconds = [each["mean"] for each in found["by_network"].values()]
    return (
        f"`--scale {found['scale']}` took {found['seconds'] / 60:.0f} minutes (n = 1) on {found['device']}: "
        f"{found['networks']} networks of {min(seconds):.0f} to {max(seconds):.0f} s, and their probes.\n"
    )


def study_claims() -> str:
    """Return the verdict of each claim in both studies, under both pools; contrasts are in a study's page."""
    studies = {"digits": "study-tiny", "CIFAR-10": "study-small"}
    columns = [f"{title}, `{pool}`" for title in studies for pool in STUDY_POOLS]
    found = [list(evaluate_trials(done).values()) for study, done in map(finished, studies.values())]
    rows = []
    for claims in zip(*chain.from_iterable(found), strict=True):
        verdicts = [claim.verdict for claim in claims]
        rows.append((f"({claims[0].letter}) {claims[0].claim}", *verdicts))
    return f"{table(('claim of the paper', *columns), rows)}\nBy 95% intervals.\n"


def study_differences() -> str:
    """Return how much networks of a study differ between machines, precisions and initializations."""
    rows = []
    for title, names in PAIRS.items():
        one, other = ({(each.architecture, each.seed): each for each in trials_of(name)} for name in names)
        both = [(one[key], other[key]) for key in one if key in other]
        losses = [abs(a.loss - b.loss) for a, b in both]
        cells = [f"{statistics.mean(losses):.4f} (max {max(losses):.4f})"]
        for pool in STUDY_POOLS:
            accuracies = [[100 * each.probes[pool].network.test_accuracy for each in pair] for pair in both]
            points = [abs(a - b) for a, b in accuracies]
            cells.append(f"{statistics.mean(points):.1f} (max {max(points):.1f}) points")
        rows.append((title, str(len(both)), *cells))
    columns = ("studies", "networks", "loss (nats)", *(f"accuracy, pool `{pool}`" for pool in STUDY_POOLS))
    return table(columns, rows) + "\nAbsolute differences between networks of the same seed.\n"


@cache
def finished(name: str) -> tuple[BiasStudy, list[TrialResult]]:
    """Return a committed study and the results of its finished trials."""
    study = BiasStudy.open(RESULTS / name)
    return study, [each for each in study.results().values() if each.trial is not None]


def trials_of(name: str) -> list[Trial]:
    return [each.trial for each in finished(name)[1] if each.trial is not None]


def study_blocks(name: str) -> str:
    """Return the mean loss and accuracies of each block, with its untrained networks, over all else."""
    trials = trials_of(name)
    columns = ("block", "loss (nats)", *(f"accuracy, pool `{pool}` (untrained)" for pool in STUDY_POOLS))
    rows = []
    for block in dict.fromkeys(trial.block for trial in trials):
        own = [trial for trial in trials if trial.block == block]
        cells = [f"{statistics.mean(trial.loss for trial in own):.3f}"]
        for pool in STUDY_POOLS:
            probes = [trial.probes[pool] for trial in own]
            trained, untrained = (
                statistics.mean(getattr(each, network).test_accuracy for each in probes)
                for network in ("network", "untrained")
            )
            cells.append(f"{trained:.1%} ({untrained:.1%})")
        rows.append((block, *cells))
    pixels = statistics.mean(trial.probes["mean"].raw_pixels.test_accuracy for trial in trials)
    note = f"Means over encodings, depths and seeds. All raw pixels: {pixels:.1%}."
    return f"{table(columns, rows)}\n{note}\n\n{sample(name)}\n"


def sample(name: str) -> str:
    """Return what the numbers are of: networks, seeds, images, probe, time and machine."""
    study, done = finished(name)
    probed = ", ".join(f"{count:,} {split}" for split, count in done[0].metrics["images"].items())
    hours = sum(each.seconds for each in done) / 3600
    counts = Counter(trial.architecture for trial in trials_of(name)).values()
    seeds = f"{max(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    environments = (each.environment for each in done)
    machines = ", ".join({f"{each['device']} in {each['precision']}": None for each in environments})
    return (
        f"{len(done)} networks, {seeds} seeds. Probe: {study.trials[0].probe.label()}, {probed} images. "
        f"{hours:.1f} hours of one thread on {machines}, isopix {done[0].environment['isopix']}."
    )


def simulation() -> str:
    """Return how often simulated studies refute falsely, and how often they find what is true."""
    found = read("study-simulation.json")
    scales: dict[str, dict[str, dict[str, Any]]] = {}
    for row in found["worlds"]:
        scales.setdefault(row["scale"], {})[row["world"]] = row
    letters = [world for world in next(iter(scales.values())) if len(world) == 1]
    columns = (
        "scale",
        "false verdicts, at most",
        f"power below {WEAK:.0%}",
        "power of the other claims, at least",
    )
    rows = []
    for scale, worlds in scales.items():
        power = {
            each: worlds[each]["verdicts"][each].get("holds", 0) / worlds[each]["studies"] for each in letters
        }
        false = [worlds["none"]["any_refuted"] / worlds["none"]["studies"]]
        false += [worst(worlds[world], verdict) for verdict in FALSE for world in ("mixed", "encodings")]
        weak = ", ".join(f"({each}) {found:.0%}" for each, found in power.items() if found < WEAK)
        strong = f"{min(found for found in power.values() if found >= WEAK):.0%}"
        rows.append((scale, f"{max(false):.0%}", weak, strong))
    counts = {row["studies"] for row in found["worlds"]}
    return f"{table(columns, rows)}\n{min(counts):,} to {max(counts):,} studies a cell.\n"


def worst(row: dict[str, Any], verdict: str) -> float:
    """Return the largest share of a false verdict among the claims about averages over kinds."""
    return max(row["verdicts"][each].get(verdict, 0) for each in "abcef") / row["studies"]
