"""The tables of the study of inductive biases, from its committed results, and of its simulation."""

import statistics
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from cells import RESULTS, mean_std, read

from isopix.studies.inductive_bias.grid import SCALES, STUDY_POOLS, Study
from isopix.studies.inductive_bias.results import TrialResult
from isopix.studies.inductive_bias.write_up import evaluate_trials

CIFAR10 = "study-tiny-cifar10"
TINY = ("study-tiny", "study-tiny-repeated")
INTERVAL = "Verdicts by 95 % intervals over seeds, kinds of networks and test images"
FALSE = ("does not hold", "holds")
FALSE_COLUMNS = (
    "any refuted: no differences",
    *(f"{verdict}: {each} differ by chance" for verdict in FALSE for each in ("networks", "encodings")),
)


def study_tiny() -> str:
    """Return the blocks and claims of the tiny study, on translated digits."""
    return "\n".join([blocks_table("study-tiny"), claims_table("study-tiny")])


def study_time() -> str:
    """Return how long the tiny study took, and networks of each block and depth."""
    found = read("study-tiny-time.json")
    times = "; ".join(
        f"{name} {each['mean']:.0f} ± {each['std']:.0f} s (n = {each['n']})"
        for name, each in found["by_network"].items()
    )
    size = f"{found['networks']} networks with their probes and the page"
    machine = f"{found['device']} in {found['precision']}, torch {found['torch']}"
    threads = f"{found['threads_per_network']} thread per network"
    return (
        f"`--scale {found['scale']}`, {size}, took {found['seconds'] / 60:.0f} minutes (n = 1) on {machine}, "
        f"{threads}. A network: {times}, mean ± std (n − 1) over encodings and seeds.\n"
    )


def study_small() -> str:
    """Return the blocks and claims of the small study, on CIFAR-10."""
    return "\n".join([blocks_table("study-small"), claims_table("study-small")])


def study_precision() -> str:
    """Return networks of the small study that were trained in both precisions."""
    return paired_table({"bf16": "study-small", "fp32": "study-small-fp32"})


def study_initialization() -> str:
    """Return transformers of the tiny study with two initializations of their attention."""
    return paired_table({"`keras`": "study-tiny", "`keras_mha`": "study-tiny-keras-mha"})


def paired_table(names: dict[str, str]) -> str:
    """Return the networks that two studies have, by the titles of the studies."""
    studies = [
        {(each.trial.architecture, each.trial.seed): each for each in finished(name)[1] if each.trial}
        for name in names.values()
    ]
    keys = [key for key in studies[0] if key in studies[1]]
    columns = ["loss (nats)", *(f"`{pool}`" for pool in STUDY_POOLS)]
    heads = [f"{column}: {' | '.join(names)}" for column in columns]
    rows = [f"| network | {' | '.join(heads)} |", "|---|" + "---|" * 2 * len(columns)]
    for key in keys:
        trials = [study[key].trial for study in studies]
        cells = [f"{each.loss:.4f}" for each in trials if each]
        for pool in STUDY_POOLS:
            cells += [f"{each.probes[pool].network.test_accuracy:.1%}" for each in trials if each]
        rows.append(f"| {'-'.join(map(str, key[0]))}, seed {key[1]} | {' | '.join(cells)} |")
    used = [machines([study[key] for key in keys]) for study in studies]
    each = used[0] if used[0] == used[1] else " and on ".join(used)
    return "\n".join([*rows, "", f"Each on {each}."]) + "\n"


def study_losses() -> str:
    """Return the losses of the tiny study on CIFAR-10 by encoding and depth, and the means of each block."""
    losses: dict[tuple[str, int], dict[str, list[float]]] = {}
    for each in finished(CIFAR10)[1]:
        if each.trial is not None:
            kind = (each.trial.encoding, each.trial.depth)
            losses.setdefault(kind, {}).setdefault(each.trial.block, []).append(each.trial.loss)
    names = list(next(iter(losses.values())))
    rows = [f"| loss (nats) | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for (encoding, depth), by_block in losses.items():
        cells = [
            f"{statistics.mean(by_block[name]):.3f} ± {statistics.stdev(by_block[name]):.3f}"
            for name in names
        ]
        rows.append(f"| {encoding}, {depth} block{'s' * (depth > 1)} | {' | '.join(cells)} |")
    note = sample(CIFAR10, "Mean ± standard deviation over seeds")
    return "\n".join([*rows, "", note, "", blocks_table(CIFAR10)])


def study_repeated() -> str:
    """Return what differs between two runs of the tiny study, on different machines."""
    studies = [finished(name)[1] for name in TINY]
    verdicts = [
        {(pool, claim.letter): claim.verdict for pool, claims in found.items() for claim in claims}
        for found in (evaluate_trials(done, SCALES["tiny"].effects) for done in studies)
    ]
    changed = [key for key, verdict in verdicts[0].items() if verdicts[1][key] != verdict]
    rows = [f"| verdict | {' | '.join(map(machines, studies))} |", "|---|---|---|"]
    for pool, letter in changed:
        both = " | ".join(each[pool, letter] for each in verdicts)
        rows.append(f"| claim {letter}, pool `{pool}` | {both} |")
    trials = [[each.trial for each in done if each.trial is not None] for done in studies]
    losses = [first.loss - second.loss for first, second in zip(*trials, strict=True)]
    note = f"All other {len(verdicts[0]) - len(changed)} verdicts are the same. Networks differ by"
    spread = f"{statistics.mean(map(abs, losses)):.3f} nats on average, {max(map(abs, losses)):.3f} at most"
    return "\n".join([*rows, "", f"{note} {spread} (n = {len(losses)})."]) + "\n"


@cache
def finished(name: str) -> tuple[Study, list[TrialResult]]:
    """Return a committed study and the results of its finished trials."""
    study = Study.open(RESULTS / name)
    return study, [each for each in study.results().values() if each.trial is not None]


def blocks_table(name: str) -> str:
    """Return the mean loss and accuracies of each block, with its untrained networks, over all else."""
    _, done = finished(name)
    trials = [each.trial for each in done if each.trial is not None]
    columns = " | ".join(f"accuracy, pool `{pool}` (untrained)" for pool in STUDY_POOLS)
    rows = [f"| block | loss (nats) | {columns} |", "|---|---|" + "---|" * len(STUDY_POOLS)]
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
        rows.append(f"| {block} | {' | '.join(cells)} |")
    pixels = statistics.mean(trial.probes["mean"].raw_pixels.test_accuracy for trial in trials)
    note = f"Means over encodings, depths and seeds. All raw pixels: {pixels:.1%}."
    return "\n".join([*rows, "", note]) + "\n"


def claims_table(name: str) -> str:
    """Return the verdict of each claim under both pools; the contrasts are in the page of the study."""
    study, done = finished(name)
    found = evaluate_trials(done, SCALES[study.plan.scale].effects)
    columns = " | ".join(f"pool `{pool}`" for pool in STUDY_POOLS)
    rows = [f"| claim of the paper | {columns} |", "|---|" + "---|" * len(STUDY_POOLS)]
    for claims in zip(*found.values(), strict=True):
        verdicts = " | ".join(claim.verdict for claim in claims)
        rows.append(f"| ({claims[0].letter}) {claims[0].claim} | {verdicts} |")
    return "\n".join([*rows, "", sample(name, INTERVAL)]) + "\n"


def sample(name: str, statistic: str) -> str:
    """Return what the numbers are of: networks, seeds, images, probe, time and machine; and the statistic."""
    study, done = finished(name)
    recipe, images, first = study.specs[0].recipe, done[0].metrics["images"], done[0]
    data = first.metrics["measurement"]["data"]
    probed = ", ".join(f"{count:,} {split}" for split, count in images.items())
    hours = sum(each.seconds for each in done) / 3600
    trials = [each.trial for each in done if each.trial is not None]
    counts = Counter(trial.architecture for trial in trials).values()
    seeds = f"{max(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return (
        f"{len(done)} networks, {seeds} seeds; {data} at {recipe.data.rows}×{recipe.data.cols}, width "
        f"{recipe.model.width}, {recipe.train.steps:,} steps of {recipe.train.batch_size} images. "
        f"{statistic}. Probe: "
        f"{study.specs[0].probe.label()}, {probed} images. {hours:.1f} hours of one thread: "
        f"{machines(done)}; torch {first.environment['torch']}, isopix {first.environment['isopix']}."
    )


def machines(results: Sequence[TrialResult]) -> str:
    """Return the devices and precisions; if there are several, how many networks each trained."""
    found = Counter((each.environment["device"], each.environment["precision"]) for each in results)
    names = [f"{device} in {precision}" for device, precision in found]
    if len(names) == 1:
        return names[0]
    return ", ".join(f"{count} networks {name}" for name, count in zip(names, found.values(), strict=True))


def loss_cell(losses: Sequence[float]) -> str:
    """Format a mean with its standard deviation, if there are several."""
    spread = f" ± {statistics.stdev(losses):.3f}" if len(losses) > 1 else ""
    return f"{statistics.mean(losses):.3f}{spread}"


def accuracy_cell(accuracies: list[float]) -> str:
    return mean_std(accuracies) if len(accuracies) > 1 else f"{accuracies[0]:.1%}"


def simulation() -> str:
    """Return how often simulated studies refute falsely, and how often they find what is true."""
    found = read("study-simulation.json")
    scales: dict[str, dict[str, dict[str, Any]]] = {}
    for row in found["worlds"]:
        scales.setdefault(row["scale"], {})[row["world"]] = row
    letters = [world for world in next(iter(scales.values())) if len(world) == 1]
    columns = ("stated effect", *FALSE_COLUMNS, *letters)
    rows = [
        f"| scale | {' | '.join(columns)} |",
        "|---|---|" + "---|" * len(FALSE_COLUMNS) + "---|" * len(letters),
    ]
    for scale, worlds in scales.items():
        power = [share(worlds[each]["verdicts"][each].get("holds", 0), worlds[each]) for each in letters]
        effect = found["scales"][scale]["effects"]["points"]
        false = [share(worlds["none"]["any_refuted"], worlds["none"])]
        false += [worst(worlds[world], verdict) for verdict in FALSE for world in ("mixed", "encodings")]
        name, *measured = scale.split(", ")
        title = f"`{name}`, as measured" if measured else f"`{name}`"
        rows.append(f"| {title} | {effect:g} points | {' | '.join([*false, *power])} |")
    counts = {row["studies"] for row in found["worlds"]}
    return "\n".join([*rows, "", f"{min(counts):,} to {max(counts):,} simulated studies a cell."]) + "\n"


def worst(row: dict[str, Any], verdict: str) -> str:
    """Return the largest share of a false verdict among the claims about averages over kinds."""
    return share(max(row["verdicts"][each].get(verdict, 0) for each in "abcef"), row)


def share(count: int, row: dict[str, Any]) -> str:
    return f"{100 * count / row['studies']:.0f} %"
