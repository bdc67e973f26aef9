"""Writes the tables of the README and the docs from the files in `bench/results`.

python bench/tables.py            # rewrite the text between the markers of each page
python bench/tables.py --check    # exit with 1 if a page differs from its files
"""

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cells import RESULTS, mean_std, read, threads
from demo_table import demo

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REGION = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """Rewrite or check all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = [page for page in PAGES if render(page) != page.read_text()]
    if options.check:
        messages = [f"{page} differs from bench/results; run python bench/tables.py" for page in stale]
        sys.exit("\n".join(messages) or 0)
    for page in stale:
        page.write_text(render(page))


def render(page: Path) -> str:
    """Return the page with all tables generated."""
    return REGION.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], page.read_text())


def evidence() -> str:
    """Return the tiny CIFAR-10 runs: test loss and linear probe, with baselines."""
    head = "| network | test loss (nats per predicted pixel) | layer | probe test accuracy (95 % interval) |"
    rows, runs = [head, "|---|---|---|---|"], {}
    for name, title in {"ar": "autoregressive", "bert": "masked (BERT)"}.items():
        run = runs[title] = read(f"cifar10-tiny-{name}.json")
        probe = run["probe"]
        rows.append(f"| **{title}** | {run['test_loss_nats']:.3f} | {score(probe['network'])} |")
        untrained = probe["baselines"]["untrained"]
        rows.append(f"| &nbsp;&nbsp;untrained | {run['untrained_loss_nats']:.3f} | {score(untrained)} |")
        shuffled = probe["baselines"]["shuffled labels"]
        rows.append(f"| &nbsp;&nbsp;shuffled labels | | {score(shuffled)} |")
    rows.append(f"| raw pixels | | {score(probe['baselines']['raw pixels'])} |")
    return "\n".join(rows) + f"\n\n{setup(runs)}\n"


def setup(runs: dict[str, Any]) -> str:
    """Return training time, probe images and probe warnings of the runs."""
    seen, probe = (next(iter(runs.values()))[key] for key in ("images_seen", "probe"))
    counts = ", ".join(f"{count:,} {name}" for name, count in probe["network"]["num_images"].items())
    times = ", ".join(
        f"{title} {each['training_seconds'] / 60:.0f} minutes on {threads(each)} of {each['device']}"
        for title, each in runs.items()
    )
    warnings = "".join(
        f" Note, {title}: {warning}."
        for title, each in runs.items()
        for warning in each["probe"]["network"]["warnings"]
    )
    return (
        f"Each trained on {seen:,} images of CIFAR-10 at 32×32; {times}. Linear probe: {counts} images; "
        f"layer and L2 penalty chosen on validation.{warnings}"
    )


def score(record: dict[str, Any]) -> str:
    """Return two cells: the layer chosen on validation, and its test accuracy."""
    best = record["layers"][record["best_index"]]
    layer, (low, high) = best["layer"] if len(record["layers"]) > 1 else "", best["interval"]
    return f"{layer} | {best['test_accuracy']:.1%} ({low:.1%} to {high:.1%})"


def speed() -> str:
    """Return one row per benchmark."""
    rows = ["| task | peer | speedup | repeats | machine |", "|---|---|---|---|---|"]
    for file in sorted(RESULTS.glob("speed-*.json")):
        found = json.loads(file.read_text())
        machine = f"{found['device']}, {threads(found)}, torch {found['torch']}"
        rows += [
            f"| {row['task']} | {row['peer']} | {row['speedup']:.1f}× | {row['n']} | {machine} |"
            for row in found["comparisons"]
        ]
    return "\n".join(rows) + "\n"


def transfer() -> str:
    """Return the accuracies of three pre-trained networks, and their low-data errors."""
    found = read("transfer-cifar10.json")
    titles = [f"{KINDS[name]}, {len(runs)} seeds" for name, runs in found["runs"].items()]
    rows = [f"| test accuracy | {' | '.join(titles)} |", "|---|" + "---|" * len(titles)]
    for title, accuracy in ACCURACIES.items():
        values = [mean_std([accuracy(run) for run in runs]) for runs in found["runs"].values()]
        rows.append(f"| {title} | {' | '.join(values)} |")
    low_data = found["low_data"]
    counts = [f"{each['images']:,} labels" for each in low_data["ar"]["trained"]]
    errors = [f"| test error | {' | '.join(counts)} |", "|---|" + "---|" * len(counts)]
    for name, results in low_data.items():
        errors += [f"| {KINDS[name]} | {error_cells(results['trained'])} |"]
        errors += [f"| &nbsp;&nbsp;untrained | {error_cells(results['untrained'])} |"]
    errors.append(f"| raw pixels | {error_cells(low_data['ar']['raw pixels'])} |")
    return "\n".join([*rows, "", transfer_setup(found), "", *errors]) + "\n"


def transfer_setup(found: dict[str, Any]) -> str:
    """Return how the networks were trained and evaluated."""
    first = {KINDS[name]: runs[0] for name, runs in found["runs"].items()}
    seen = ", ".join(f"{title} {run['images_seen']:,}" for title, run in first.items())
    run = next(iter(first.values()))
    finetuned, probed = (
        run["finetuned"],
        ", ".join(f"{n:,} {name}" for name, n in run["probe_images"].items()),
    )
    subsets = len(found["low_data"]["ar"]["trained"][0]["errors"])
    return (
        f"CIFAR-10 at 16×16. Accuracy: mean ± std (n − 1) over seeds, including pre-training. Training "
        f"images processed in pre-training: {seen}; in fine-tuning and from scratch: "
        f"{finetuned['images_seen']:,}. Linear probe: {probed} images. Fine-tuning: "
        f"{finetuned['images']:,} test images. Test error: linear probe, mean ± std over {subsets} balanced "
        f"subsets, one seed, {found['images']['test']:,} test images. "
        f"Device: {found['device']}."
    )


def error_cells(results: list[dict[str, Any]]) -> str:
    """Return a cell per number of labels: mean and standard deviation of the error over subsets."""
    return " | ".join(f"{each['mean']:.1%} ± {each['std']:.1%}" for each in results)


def study() -> str:
    """Return the ten claims tested on small networks, and the results of every network, over seeds."""
    found = read("study-tiny.json")
    rows = ["| claim of the paper | result | measured |", "|---|---|---|"]
    for claim in found["claims"]:
        numbers = "; ".join(f"{contrast['text']} {measured(contrast)}" for contrast in claim["contrasts"])
        rows.append(f"| ({claim['letter']}) {claim['claim']} | {claim['conclusion']} | {numbers} |")
    trials = ["| network | loss (nats) | accuracy, best layer | untrained |", "|---|---|---|---|"]
    architectures: dict[str, list[dict[str, Any]]] = {}
    for trial in found["trials"]:
        name = f"{trial['block']}-{trial['encoding']}-{trial['depth']}"
        architectures.setdefault(name, []).append(trial)
    for name, seeds in architectures.items():
        losses = [trial["loss"] for trial in seeds]
        untrained = [trial["untrained"][trial["untrained_best_layer"]] for trial in seeds]
        loss = f"{statistics.mean(losses):.3f} ± {statistics.stdev(losses):.3f}"
        accuracy = mean_std([trial["test_accuracy"] for trial in seeds])
        trials.append(f"| {name} | {loss} | {accuracy} | {mean_std(untrained)} |")
    pixels = statistics.mean(trial["raw_pixels"] for trial in found["trials"])
    images = ", ".join(f"{count:,} {split}" for split, count in found["trials"][0]["images"].items())
    minutes = sum(trial["training_seconds"] + trial["probing_seconds"] for trial in found["trials"]) / 60
    setup = (
        f"{found['seeds']} seeds. Networks: mean ± std (n − 1); claims: mean ± half the 95 % interval. "
        f"Linear probe: {images} images; raw pixels {pixels:.1%}. Total time: {minutes:.0f} minutes on "
        f"{found['device']}, torch {found['torch']}."
    )
    return "\n".join([*rows, "", setup, "", *trials]) + "\n"


def measured(contrast: dict[str, Any]) -> str:
    """Format the mean over seeds and half its 95 % interval: `+2.3 ± 0.4 points`."""
    if contrast["mean"] is None:
        return "not measured"
    half = "" if contrast["half_width"] is None else f" ± {contrast['half_width']:.2g}"
    return f"{contrast['mean']:+.3g}{half} {contrast['unit']}".strip()


def patches() -> str:
    """Return the accuracies of a tiny PatchFormer and a tiny ViT on photos, with 10 % of the labels."""
    found = read("patches-flowers5.json")
    runs = found["runs"]
    names = [f"`{run['recipe']}`" for run in runs.values()]
    rows = [f"| metric | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    metrics: dict[str, Callable[[dict[str, Any]], str]] = {
        "pre-training test loss (nats per predicted code)": lambda run: f"{run['loss_nats']:.3f}",
        "test accuracy, fine-tuned on 10 % of the labels": lambda run: accuracies(run["finetuned"]),
        "test accuracy, from scratch on the same labels": lambda run: accuracies(run["scratch"]),
    }
    rows += [f"| {title} | {' | '.join(map(metric, runs.values()))} |" for title, metric in metrics.items()]
    times = ", ".join(
        f"`{run['recipe']}` {run['images_seen']:,} images in {run['training_seconds'] / 60:.0f} minutes"
        for run in runs.values()
    )
    first = next(iter(runs.values()))
    setup = (
        f"Flowers of five kinds at 64×64, {found['images']['train']:,} training images. Pre-training: "
        f"{times}, on {threads(found)} of {found['device']}. Fine-tuning and training from scratch: "
        f"mean ± std (n − 1) over {len(first['finetuned'])} balanced subsets of the labels, the same for "
        f"all; {first['finetuned'][0]['images']:,} test images."
    )
    return "\n".join([*rows, "", setup]) + "\n"


def accuracies(results: list[dict[str, Any]]) -> str:
    """Format the mean and standard deviation of the accuracies."""
    return mean_std([each["accuracy"] for each in results])


KINDS = {"ar": "autoregressive", "bert": "masked (BERT)", "conv": "convolution, masked"}
ACCURACIES: dict[str, Callable[[dict[str, Any]], float]] = {
    "raw pixels": lambda run: run["baselines"]["raw pixels"],
    "untrained, best layer": lambda run: run["baselines"]["untrained"],
    "pre-trained, last layer": lambda run: run["last_layer_accuracy"],
    "pre-trained, best layer": lambda run: run["best_accuracy"],
    "pre-trained, five layers concatenated": lambda run: run["concat"]["accuracy"],
    "fine-tuned": lambda run: run["finetuned"]["accuracy"],
    "from scratch": lambda run: run["scratch"]["accuracy"],
}

TABLES = {
    "demo": demo,
    "evidence": evidence,
    "speed": speed,
    "transfer": transfer,
    "study": study,
    "patches": patches,
}

if __name__ == "__main__":
    main()
