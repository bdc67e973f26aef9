"""Writes the tables of the README and the documentation from the files that runs and benchmarks left.

python bench/tables.py            # rewrites what stands between the markers of each page
python bench/tables.py --check    # exits with 1 if a page differs from its files
"""

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REGION = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """Rewrite or check every region."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = [page for page in PAGES if rewritten(page) != page.read_text()]
    if options.check:
        told = [f"{page} differs from bench/results; run python bench/tables.py" for page in stale]
        sys.exit("\n".join(told) or 0)
    for page in stale:
        page.write_text(rewritten(page))


def rewritten(page: Path) -> str:
    """The page with every region made from its files."""
    return REGION.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], page.read_text())


def read(name: str) -> Any:
    """One file of `bench/results`."""
    return json.loads((RESULTS / name).read_text())


def evidence() -> str:
    """The tiny CIFAR-10 runs: held-out loss and probe, beside the controls."""
    head = "| | test loss, nats a graded pixel | layer | test accuracy (95 % interval) |"
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
    return "\n".join(rows) + f"\n\n{how(runs)}\n"


def how(runs: dict[str, Any]) -> str:
    """What the runs took, how they were probed, and every warning of their probes."""
    seen, probe = (next(iter(runs.values()))[key] for key in ("images_seen", "probe"))
    counts = ", ".join(f"{count:,} {name}" for name, count in probe["network"]["num_images"].items())
    took = ", ".join(
        f"{title} {each['training_seconds'] / 60:.0f} minutes on {threads(each)} of {each['device']}"
        for title, each in runs.items()
    )
    warnings = "".join(
        f" Note, {title}: {warning}."
        for title, each in runs.items()
        for warning in each["probe"]["network"]["warnings"]
    )
    return (
        f"Each saw {seen:,} images of CIFAR-10 at 32×32; {took}. Probe: {counts} images; layer and strength "
        f"chosen on validation.{warnings}"
    )


def score(record: dict[str, Any]) -> str:
    """Two cells: the layer that validation chose, and its test accuracy."""
    best = record["layers"][record["best_index"]]
    layer = best["layer"] if len(record["layers"]) > 1 else ""
    low, high = best["interval"]
    return f"{layer} | {best['test_accuracy']:.1%} ({low:.1%} to {high:.1%})"


def threads(found: dict[str, Any]) -> str:
    """`1 thread`, `2 threads`."""
    return f"{found['threads']} thread{'s' * (found['threads'] != 1)}"


def speed() -> str:
    """A row for each benchmark."""
    rows = ["| work | peer | isopix is faster | n | machine |", "|---|---|---|---|---|"]
    for file in sorted(RESULTS.glob("speed-*.json")):
        found = json.loads(file.read_text())
        machine = f"{found['device']}, {threads(found)}, torch {found['torch']}"
        rows += [
            f"| {row['what']} | {row['peer']} | {row['ratio']:.1f}× | {row['n']} | {machine} |"
            for row in found["ratios"]
        ]
    return "\n".join(rows) + "\n"


def transfer() -> str:
    """What three kinds of networks know after pre-training, and their errors with few labels."""
    found = read("transfer-cifar10.json")
    titles = [f"{KINDS[name]}, {len(runs)} seeds" for name, runs in found["runs"].items()]
    rows = [f"| test accuracy | {' | '.join(titles)} |", "|---|" + "---|" * len(titles)]
    for what, pick in ACCURACIES.items():
        each = [spread([pick(run) for run in runs]) for runs in found["runs"].values()]
        rows.append(f"| {what} | {' | '.join(each)} |")
    few = found["few_labels"]
    counts = [f"{each['num_train_images']:,}" for each in few["ar"]["trained"]]
    errors = [f"| error with so many labels | {' | '.join(counts)} |", "|---|" + "---|" * len(counts)]
    for name, results in few.items():
        errors += [f"| {KINDS[name]} | {wrong(results['trained'])} |"]
        errors += [f"| &nbsp;&nbsp;untrained | {wrong(results['untrained'])} |"]
    errors.append(f"| raw pixels | {wrong(few['ar']['raw pixels'])} |")
    return "\n".join([*rows, "", taught(found), "", *errors]) + "\n"


def taught(found: dict[str, Any]) -> str:
    """What the networks saw, and how they were judged."""
    first = {KINDS[name]: runs[0] for name, runs in found["runs"].items()}
    shown = ", ".join(f"{title} {run['images_seen']:,}" for title, run in first.items())
    each = next(iter(first.values()))
    tuned, probed = each["tuned"], ", ".join(f"{n:,} {name}" for name, n in each["probe_images"].items())
    subsets = len(found["few_labels"]["ar"]["trained"][0]["errors"])
    return (
        f"CIFAR-10 at 16×16. Accuracies: mean ± deviation (n − 1) over seeds, each from pre-training on. "
        f"Images shown in pre-training: {shown}; in fine-tuning, and from scratch, "
        f"{tuned['images_seen']:,}. Probes: {probed} images; fine-tuned networks: {tuned['images']:,} test "
        f"images. Errors below: mean ± deviation of {subsets} balanced subsets, one seed, "
        f"{found['images']['test']:,} test images. Made on {found['device']}."
    )


def spread(values: list[float]) -> str:
    """`41.2% ± 0.6%`."""
    return f"{statistics.mean(values):.1%} ± {statistics.stdev(values):.1%}"


def wrong(results: list[dict[str, Any]]) -> str:
    """A cell for each number of labels: mean error and deviation of a subset."""
    return " | ".join(f"{each['mean']:.1%} ± {each['std']:.1%}" for each in results)


def study() -> str:
    """The ten claims on small networks, and every kind of cell, mean and deviation over seeds."""
    found = read("study-tiny.json")
    rows = ["| the paper's claim | here | by |", "|---|---|---|"]
    for each in found["claims"]:
        numbers = "; ".join(f"{part['text']} {judged(part)}" for part in each["parts"])
        rows.append(f"| ({each['letter']}) {each['claim']} | {each['verdict']} | {numbers} |")
    cells = ["| network | loss, nats | best layer | untrained |", "|---|---|---|---|"]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for cell in found["cells"]:
        kinds.setdefault(f"{cell['block']}-{cell['encoding']}-{cell['depth']}", []).append(cell)
    for name, same in kinds.items():
        losses = [cell["loss"] for cell in same]
        untrained = [cell["untrained"][cell["untrained_best"]] for cell in same]
        loss = f"{statistics.mean(losses):.3f} ± {statistics.stdev(losses):.3f}"
        cells.append(
            f"| {name} | {loss} | {spread([cell['accuracy'] for cell in same])} | {spread(untrained)} |"
        )
    pixels = statistics.mean(cell["raw_pixels"] for cell in found["cells"])
    images = ", ".join(f"{count:,} {split}" for split, count in found["cells"][0]["images"].items())
    minutes = sum(cell["training_seconds"] + cell["probing_seconds"] for cell in found["cells"]) / 60
    told = (
        f"{found['seeds']} seeds; mean ± deviation (n − 1), of claims ± half the 95 % interval. "
        f"Probes: {images} images; raw pixels reach {pixels:.1%}. {minutes:.0f} minutes of work in all, "
        f"on {found['device']} with torch {found['torch']}."
    )
    return "\n".join([*rows, "", told, "", *cells]) + "\n"


def judged(part: dict[str, Any]) -> str:
    """`+2.3 ± 0.4 points`: the mean over seeds, and half its 95 % interval."""
    if part["mean"] is None:
        return "not measured"
    half = "" if part["half"] is None else f" ± {part['half']:.2g}"
    return f"{part['mean']:+.3g}{half} {part['unit']}".strip()


def patches() -> str:
    """What a tiny PatchFormer and a tiny ViT know of photographs, with a tenth of the labels."""
    found = read("patches-flowers5.json")
    runs = found["runs"]
    names = [f"`{run['recipe']}`" for run in runs.values()]
    rows = [f"| test accuracy | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    shown: dict[str, Callable[[dict[str, Any]], str]] = {
        "pre-training, nats a graded code": lambda run: f"{run['loss_nats']:.3f}",
        "fine-tuned on 10 % of the labels": lambda run: spread([each["accuracy"] for each in run["tuned"]]),
        "from scratch on the same": lambda run: spread([each["accuracy"] for each in run["scratch"]]),
    }
    rows += [f"| {what} | {' | '.join(map(tell, runs.values()))} |" for what, tell in shown.items()]
    took = ", ".join(
        f"`{run['recipe']}` {run['images_seen']:,} images in {run['training_seconds'] / 60:.0f} minutes"
        for run in runs.values()
    )
    first = next(iter(runs.values()))
    told = (
        f"Flowers of five kinds at 64×64, {found['images']['train']:,} training images. Pre-training: "
        f"{took}, on {threads(found)} of {found['device']}. Fine-tuning and "
        f"training from scratch: mean ± deviation (n − 1) over {len(first['tuned'])} balanced draws of the "
        f"labels, the same for all; {first['tuned'][0]['images']:,} test images."
    )
    return "\n".join([*rows, "", told]) + "\n"


KINDS = {"ar": "autoregressive", "bert": "masked (BERT)", "conv": "convolutions, masked"}
ACCURACIES: dict[str, Callable[[dict[str, Any]], float]] = {
    "raw pixels": lambda run: run["baselines"]["raw pixels"],
    "untrained, its best layer": lambda run: run["baselines"]["untrained"],
    "pre-trained, last layer": lambda run: run["last"],
    "pre-trained, best layer": lambda run: run["best"],
    "the five layers around it": lambda run: run["concat"]["accuracy"],
    "fine-tuned": lambda run: run["tuned"]["accuracy"],
    "the same from scratch": lambda run: run["scratch"]["accuracy"],
}

TABLES = {"evidence": evidence, "speed": speed, "transfer": transfer, "study": study, "patches": patches}

if __name__ == "__main__":
    main()
