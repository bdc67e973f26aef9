"""The tables of `bench/results/demo.json`, which `bench/demo.py` writes."""

import statistics
from typing import Any

from cells import read

from isopix.core.text import mean_and_std

NETWORKS = {
    "ar": "transformer, autoregressive",
    "bert": "transformer, masked",
    "conv": "convolutions, masked",
}


def demo() -> str:
    """Return the networks of the demo beside their baselines, and the accuracies with few labels."""
    found = read("demo.json")
    columns = ("network", "test loss", "best learning-free loss", "test accuracy", "untrained", "gain")
    rows = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name, runs in found["runs"].items():
        networks = [run["probe"]["network"] for run in runs]
        loss, free = statistics.mean(run["loss_nats"] for run in runs), [run["learning_free"] for run in runs]
        cells = [
            NETWORKS[name],
            f"{loss:.2f}",
            f"{statistics.mean(each['nats'] for each in free):.2f} ({free[0]['name']})",
            f"**{accuracy(networks)}**",
            accuracy([run["baselines"]["untrained"] for run in runs]),
            gain([run["probe"]["gain"] for run in runs]),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    pixels = found["runs"]["ar"][0]["baselines"]["raw pixels"]  # the same for all networks and seeds
    rows.append(f"| raw pixels | | | {best(pixels)['test_accuracy']:.1%} | | |")
    return "\n".join([*rows, "", setup(found), "", *few_labels(found["low_data"])]) + "\n"


def setup(found: dict[str, Any]) -> str:
    first = found["runs"]["ar"][0]
    network, picture = first["probe"]["network"], found["picture"]
    counts = ", ".join(f"{count:,} {name}" for name, count in network["num_images"].items())
    layers = ", ".join(f"{layer['test_accuracy']:.1%}" for layer in network["layers"])
    seeds = "; ".join(f"{NETWORKS[name]} {by_seed(runs)}" for name, runs in found["runs"].items())
    differ = len(set(found["threads"])) > 1
    given = found["threads"] if differ else found["threads"][:1]
    threads = ", ".join(f"{count} thread{'s' * (count != 1)}" for count in given)
    threads += " by seed" if differ else " per network"
    minutes = [seconds / 60 for seconds in found["seconds"]]
    took = f"The demo took {statistics.median(minutes):.1f} minutes (n = {len(minutes)}). " if minutes else ""
    spread = "95 % intervals" if found["n"] == 1 else f"mean ± std (n − 1) over {found['n']} seeds"
    return (
        f"Loss in nats per predicted pixel value. Accuracy: linear probe, {counts} images "
        f"({network['num_test_groups']} test digits), layer and L2 penalty chosen on validation; {spread}. "
        f"Gain: points over the better of raw pixels and the untrained network, on the same test images. "
        f"By seed: {seeds}. Layers 0 to {len(network['layers']) - 1} of the autoregressive network, seed "
        f"{first['seed']}: {layers}. Picture: seed "
        f"{picture['seed']}, temperature {picture['temperature']:g}, the first {picture['rows']} of 14 rows "
        f"given. {took}{found['device']}, {threads}, torch {found['torch']}, isopix {found['isopix']}."
    )


def by_seed(runs: list[dict[str, Any]]) -> str:
    scores = [best(run["probe"]["network"]) for run in runs]
    return ", ".join(f"{score['test_accuracy']:.1%} (layer {score['layer']})" for score in scores)


def few_labels(seeds: list[dict[str, Any]]) -> list[str]:
    """Return the test accuracies of the autoregressive network with few labels, the same in each seed."""
    first = next(iter(seeds[0].values()))
    head = "| test accuracy | " + " | ".join(f"{each['labels_per_class']} labels per class" for each in first)
    rows = [f"{head} |", "|---|" + "---|" * len(first)]
    for method in seeds[0]:
        errors = [[seed[method][i]["errors"] for seed in seeds] for i in range(len(first))]
        rows.append(f"| {method} | {' | '.join(map(two_deviations, errors))} |")
    means = f"of the means of {len(seeds)} seeds, and of {len(first[0]['errors'])} random balanced subsets"
    return [*rows, "", f"Autoregressive network: mean ± std (n − 1) {means} of the training images."]


def two_deviations(errors: list[list[float]]) -> str:
    """Format the mean accuracy with its deviations between seeds (rows), if any, and draws of labels."""
    of_seeds, of_draws = (list(map(statistics.mean, rows)) for rows in (errors, zip(*errors, strict=True)))
    seeds = f" ± {statistics.stdev(of_seeds):.1%} (seeds)" if len(set(of_seeds)) > 1 else ""
    return f"{1 - statistics.mean(of_seeds):.1%}{seeds} ± {statistics.stdev(of_draws):.1%} (draws)"


def best(record: dict[str, Any]) -> dict[str, Any]:
    return dict(record["layers"][record["best_index"]])


def accuracy(records: list[dict[str, Any]]) -> str:
    """Format the accuracy of one seed with its interval, or the mean and standard deviation of several."""
    scores = [best(record) for record in records]
    if len(scores) > 1:
        return mean_and_std([score["test_accuracy"] for score in scores])
    low, high = scores[0]["interval"]
    return f"{scores[0]['test_accuracy']:.1%} ({low:.1%} to {high:.1%})"


def gain(gains: list[dict[str, Any]]) -> str:
    """Format the gain of one seed with its interval, or the mean and standard deviation of several."""
    points = [100 * each["difference"] for each in gains]
    if len(points) > 1:
        return f"{statistics.mean(points):+.1f} ± {statistics.stdev(points):.1f}"
    low, high = gains[0]["interval"]
    return f"{points[0]:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
