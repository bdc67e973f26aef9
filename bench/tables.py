"""Writes the tables of the README and the docs from the files in `bench/results` and `isopix/shipped`.

python bench/tables.py            # rewrite the text between the markers of each page
python bench/tables.py --check    # exit with 1 if a page differs from its files
"""

import argparse
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ablation_table import ablation
from cells import RESULTS, read, table, threads
from data_table import decode, large_data, scale, shipped_models
from demo_table import demo, flowers
from paper_tables import costs, igpt_numbers, patchformer_numbers, vit_numbers
from patchformer_causes import causes
from reliability_table import reliability
from speed_table import memory, speed
from study_table import simulation, study_blocks, study_claims, study_differences, study_time
from time_to_quality import time_to_quality

from isopix.core.text import count_of, mean_and_std
from isopix.studies.papers.claims import CLAIMS, TARGETS, evaluated, read_claims
from isopix.studies.papers.results import ClaimsResult
from isopix.studies.scaling.results import ScalingResult

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "reference" not in page.parts),  # generated
]
REGION = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
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
    return REGION.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], page.read_text())


def claims() -> str:
    """Return the verdicts on claims of the papers, and the accuracies of the targets of masked patches."""
    seeds = read_claims(RESULTS / "claims", "cifar10")
    found = tuple(evaluated(CLAIMS, seeds))
    result = ClaimsResult(folder="bench/results/claims", claims=found, studies={}, numbers=())
    probes = {target: [each[f"{target} probe"] for each in seeds] for target in TARGETS}
    values = {target: [each.best.test_accuracy for each in own] for target, own in probes.items()}
    first = probes["pixels"][0].measurement
    untrained = [each.measurement.baselines["untrained"] for own in probes.values() for each in own]
    shown = {**values, "untrained": untrained, "raw pixels": [first.baselines["raw pixels"]]}
    accuracies = ", ".join(f"{name} {mean_and_std(each)}" for name, each in shown.items())
    counts = f"{first.fitted_images:,} training and {first.images:,} test images, {first.selection}"
    return (
        f"{result.tables()[0].markdown()}\n\nTest accuracy of the targets' probes: {accuracies}; {counts}.\n"
    )


def scaling() -> str:
    """Return profiles, best sizes and laws, and what the laws give for igpt.s."""
    found = ScalingResult.read(RESULTS / "scaling-tiny" / "report.json")
    done = sum(each.status == "done" for each in found.trials.values())
    tables = [each.markdown() for each in found.tables()]
    notes = [each for each in found.notes() if not each.startswith("wrote")]
    return "\n\n".join([f"{done} of {len(found.trials)} networks.", *tables, *notes]) + "\n"


def transfer() -> str:
    """Return the accuracies of small pre-trained networks, and their low-data errors."""
    runs = read("transfer-cifar10.json")["runs"]
    titles = [f"{KINDS[name]}, {count_of(len(run['probes']), 'seed')}" for name, run in runs.items()]
    probes = [run["probes"] for run in runs.values()]
    rows = [
        (title, *(mean_and_std([probed(each)["test_accuracy"] for each in seeds]) for seeds in probes))
        for title, probed in PROBES.items()
    ]
    accuracies = table(("test accuracy", *titles), [*rows, *comparison_rows(runs)])
    low_data = {name: run["low_data"] for name, run in runs.items()}
    pixels = next(iter(low_data.values()))["raw pixels"]
    counts = [f"{each['labels_per_class']} labels per class" for each in pixels]
    errors = []
    for name, results in low_data.items():
        errors.append((KINDS[name], *error_cells(results["trained"])))
        errors.append(("&nbsp;&nbsp;untrained", *error_cells(results["untrained"])))
    errors.append(("raw pixels", *error_cells(pixels)))
    return f"{accuracies}\n{transfer_setup(runs)}\n\n{table(('test error', *counts), errors)}"


def transfer_setup(runs: dict[str, Any]) -> str:
    seen = ", ".join(f"{KINDS[name]} {run['images_seen']:,}" for name, run in runs.items())
    run = next(iter(runs.values()))
    probed = ", ".join(f"{count:,} {name}" for name, count in run["probes"][0]["num_images"].items())
    few = run["low_data"]["raw pixels"][0]
    return (
        f"CIFAR-10 at 16×16, isopix {run['isopix']}, {run['device']}. Training images processed in "
        f"pre-training: {seen}. Linear probe: {probed} images; mean ± std (n − 1) over seeds. "
        f"{comparison_setup(runs)} Test error: linear probe, mean ± std over {len(few['errors'])} balanced "
        f"subsets, one seed of pre-training, {few['num_test_images']:,} test images."
    )


def comparison_rows(runs: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the rows of fine-tuning, training from scratch and their paired difference, a column per run."""
    cells: dict[str, Callable[[dict[str, Any]], str]] = {
        "fine-tuned": lambda run: mean_and_std(run["finetuned"]["values"]),
        "from scratch": lambda run: mean_and_std(run["scratch"]["values"]),
        "paired difference, points (95% interval)": lambda run: points(run, "half_width"),
    }
    if any(run["comparison"]["difference"]["half_width_new_images"] for run in runs.values()):
        cells["&nbsp;&nbsp;with the sampling of test images"] = lambda run: points(
            run, "half_width_new_images"
        )
    return [(title, *map(cell, runs.values())) for title, cell in cells.items()]


def points(run: dict[str, Any], width: str) -> str:
    """Format a difference with half its interval: `+4.6 ± 0.6`."""
    difference = run["comparison"]["difference"]
    half = difference[width]
    return f"{100 * difference['mean']:+.1f}" + ("" if half is None else f" ± {100 * half:.1f}")


def comparison_setup(runs: dict[str, Any]) -> str:
    designs = {design(run): None for run in runs.values()}
    seen = {f"{run['finetuning']['images_seen']:,}": None for run in runs.values()}
    tested = next(iter(runs.values()))["comparison"]["num_images"]
    return (
        f"Fine-tuned and from scratch: mean ± std (n − 1) over {' or '.join(designs)}; the same labels, "
        f"validation images and steps for both; {' and '.join(seen)} training images processed, {tested:,} "
        f"test images. The interval is over {runs_varied(runs)}, for these test images."
    )


def runs_varied(runs: dict[str, Any]) -> str:
    drawn = all(len(run["comparison"]["draws"]) > 1 for run in runs.values())
    seeded = all(len(run["comparison"]["seeds"]) > 1 for run in runs.values())
    return " and ".join(["seeds"] * seeded + ["draws of the labels"] * drawn)


def design(run: dict[str, Any]) -> str:
    """Format the design: `5 balanced draws of 312 labels × 3 pre-training seeds`; seeds alone by column."""
    seeds, draws = (len(run["comparison"][key]) for key in ("seeds", "draws"))
    labels = f"{run['finetuning']['labeled']:,} labels"
    subsets = f"{count_of(draws, 'balanced draw')} of {labels} × {count_of(seeds, 'pre-training seed')}"
    return subsets if draws else f"seeds, with all {labels}"


def error_cells(results: list[dict[str, Any]]) -> list[str]:
    """Return a cell per number of labels: mean and standard deviation of the error over subsets."""
    return [f"{each['mean']:.1%} ± {each['std']:.1%}" for each in results]


def patches() -> str:
    """Return the accuracies of a tiny PatchFormer and a tiny ViT on photos, with 10% of the labels."""
    runs = read("patches-flowers5.json")["runs"]
    names = [f"`{run['recipe']}`" for run in runs.values()]
    losses = [loss_nats(run["loss_nats"]) for run in runs.values()]
    baselines = [loss_nats(run["baseline_nats"]) for run in runs.values()]
    rows = [
        *comparison_rows(runs),
        ("pre-training test loss (nats per predicted code)", *losses),
        ("&nbsp;&nbsp;best learning-free baseline", *baselines),
    ]
    seen = ", ".join(f"`{run['recipe']}` {run['images_seen']:,}" for run in runs.values())
    sizes = ", ".join(f"{run['size']} (`{run['recipe']}`)" for run in runs.values())
    first = next(iter(runs.values()))
    return table(("test accuracy with 10% of the labels", *names), rows) + (
        f"\nFlowers of five kinds at {sizes}; {first['images']['train']:,} training images; isopix "
        f"{first['isopix']}, {threads(first)} of {first['device']}. Training images processed in "
        f"pre-training: {seen}. {comparison_setup(runs)}\n"
    )


def loss_nats(found: dict[str, Any]) -> str:
    return f"{found['mean']:.3f}" + (f" ± {found['std']:.3f}" if found["n"] > 1 else "")


KINDS = {"ar": "autoregressive", "bert": "masked (BERT)", "conv": "convolution, masked"}
PROBES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "raw pixels": lambda probe: probe["baselines"]["raw pixels"],
    "untrained, best layer": lambda probe: probe["baselines"]["untrained"],
    "pre-trained, last layer": lambda probe: probe["last"],
    "pre-trained, best layer": lambda probe: probe["best"],
    "pre-trained, five layers concatenated": lambda probe: probe["concat"],
}

TABLES = {
    "ablation": ablation,
    "time_to_quality": time_to_quality,
    "demo": demo,
    "flowers": flowers,
    "claims": claims,
    "scaling": scaling,
    "speed": speed,
    "memory": memory,
    "transfer": transfer,
    "study_time": study_time,
    "study_tiny": partial(study_blocks, "study-tiny"),
    "study_claims": study_claims,
    "study_small": partial(study_blocks, "study-small"),
    "study_differences": study_differences,
    "simulation": simulation,
    "patches": patches,
    "patchformer_causes": causes,
    "reliability": reliability,
    "scale": scale,
    "igpt_numbers": igpt_numbers,
    "igpt_costs": partial(costs, "igpt."),
    "isotropic_costs": partial(costs, "isotropic."),
    "patchformer_numbers": patchformer_numbers,
    "patches_costs": partial(costs, "patches"),
    "vit_numbers": vit_numbers,
    "decode": decode,
    "large_data": large_data,
    "shipped_models": shipped_models,
}

if __name__ == "__main__":
    main()
