"""The tables of `bench/results/demo.json`, which `bench/demo.py` writes."""

import statistics
from typing import Any

from cells import read, table, threads

from isopix.core.text import mean_and_std

NETWORKS = {
    "ar": "transformer, autoregressive",
    "bert": "transformer, masked",
    "conv": "convolutions, masked",
}


def demo() -> str:
    """Return the networks of the demo beside their baselines."""
    found = read("demo.json")
    columns = ("network", "test loss", "best learning-free baseline", "test accuracy", "untrained", "gain")
    rows = []
    for name, runs in found["runs"].items():
        networks = [run["probe"]["network"] for run in runs]
        loss, free = statistics.mean(run["loss_nats"] for run in runs), [run["learning_free"] for run in runs]
        cells = (
            NETWORKS[name],
            f"{loss:.2f}",
            f"{statistics.mean(each['nats'] for each in free):.2f} ({free[0]['name']})",
            f"**{accuracy(networks)}**",
            accuracy([run["baselines"]["untrained"] for run in runs]),
            gain([run["probe"]["gain"] for run in runs]),
        )
        rows.append(cells)
    pixels = found["runs"]["ar"][0]["baselines"]["raw pixels"]  # the same for all networks and seeds
    rows.append(("raw pixels", "", "", f"{best(pixels)['test_accuracy']:.1%}", "", ""))
    return f"{table(columns, rows)}\n{setup(found)}\n"


def setup(found: dict[str, Any]) -> str:
    first = found["runs"]["ar"][0]
    network = first["probe"]["network"]
    counts = ", ".join(f"{count:,} {name}" for name, count in network["num_images"].items())
    minutes = [seconds / 60 for seconds in found["seconds"]]
    took = f"The demo took {statistics.median(minutes):.1f} minutes (n = {len(minutes)}). " if minutes else ""
    return (
        f"Loss in nats per predicted code. Accuracy: linear probe, {counts} images "
        f"({network['num_test_groups']} test digits), layer and L2 penalty chosen on validation; "
        f"mean ± std (n − 1) over {found['n']} seeds. "
        f"Gain: points over the better of raw pixels and the untrained network. {took}{found['device']}, "
        f"isopix {found['isopix']}."
    )


def flowers() -> str:
    """Return the numbers of the README's commands on photos of flowers, of `bench/flowers.py`."""
    found = read("flowers5.json")
    loss, free = found["loss_nats"], found["baseline_nats"]["mean"]
    pixels = found["accuracies"]["raw pixels"]["mean"]  # the same for all seeds
    scores = {name: mean_and_std(each["values"]) for name, each in found["accuracies"].items()}
    return (
        f"On {sum(found['images'].values()):,} photos of five kinds of flowers, pre-training reached a test "
        f"loss of {mean_and_std(loss['values'], '.2f')} nats per pixel (best learning-free baseline "
        f"{free:.2f}). Test accuracy of the linear probe: {scores['network']} (untrained network "
        f"{scores['untrained']}, raw pixels {pixels:.1%}); after fine-tuning: "
        f"{scores['fine-tuned']} (largest class {found['majority']:.1%}). "
        f"{found['images']['test']} test images; layer, L2 penalty and step chosen on validation images; "
        f"mean ± std (n − 1) over {loss['n']} seeds. Pre-training took "
        f"{found['training_seconds']['mean'] / 60:.0f} minutes on {threads(found)} of {found['device']}.\n"
    )


def best(record: dict[str, Any]) -> dict[str, Any]:
    return dict(record["layers"][record["best_index"]])


def accuracy(records: list[dict[str, Any]]) -> str:
    return mean_and_std([best(record)["test_accuracy"] for record in records])


def gain(gains: list[dict[str, Any]]) -> str:
    points = [100 * each["difference"] for each in gains]
    return f"{statistics.mean(points):+.1f} ± {statistics.stdev(points):.1f}"
