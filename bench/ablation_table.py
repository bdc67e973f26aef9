"""The table and the figure of an ablation.

python bench/ablation_table.py bench/results/ablation.json docs/pictures/ablation
"""

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cells import read, table
from recorded_runs import crossing, of_row

from isopix.core.stats import mean_half_width
from isopix.core.text import count_of, mean_and_std
from isopix.plots import style
from isopix.storage.atomic import read_json

Runs = list[dict[str, Any]]
ENDS = ("faithful", "modern")
COLORS = dict(zip(ENDS, style.COLORS, strict=False))


def ablation(found: dict[str, Any] | None = None) -> str:
    """Return a row for each run of the ablation, next to the end that it is compared with."""
    found = found or read("ablation.json")
    columns = ("", "test loss", "difference", "probe", "points", "FLOPs")
    rows = []
    for row, runs in by_row(found).items():
        base = of_row(found["runs"], reference(row))
        cells = (
            row,
            mean_and_std([each["test_nats"] for each in runs], ".3f"),
            difference([(one["test_nats"], other["test_nats"]) for one, other in pairs(runs, base)], "+.3f"),
            mean_and_std([accuracy(each) for each in runs]),
            difference([(100 * accuracy(a), 100 * accuracy(b)) for a, b in pairs(runs, base)], "+.1f"),
            f"{runs[0]['flops']:.2e}",
        )
        rows.append(cells)
    return f"{table(columns, rows)}\n{note(found)}\n"


def by_row(found: dict[str, Any]) -> dict[str, Runs]:
    """Return the runs of each row: both ends, then shorter schedules, and parts by their loss."""
    names = {each["row"]: None for each in found["runs"].values()}

    def place(row: tuple[str, Runs]) -> tuple[Any, ...]:
        name, runs = row
        loss = statistics.mean(each["test_nats"] for each in runs)
        return name not in ENDS, "32x32" in name, is_part(name), runs[0]["end"], loss

    return dict(sorted(((name, of_row(found["runs"], name)) for name in names), key=place))


def is_part(row: str) -> bool:
    return " + " in row or " - " in row


def reference(row: str) -> str:
    """Return the row that one is compared with: its end, and faithful for whole recipes."""
    if is_part(row):
        return row.split(" ", 1)[0]
    return row.replace("modern", "faithful") if "32x32" in row else "faithful"


def pairs(runs: Runs, base: Runs) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the runs of equal seeds; none of a row with itself."""
    others = {each["seed"]: each for each in base if each["row"] != runs[0]["row"]}
    return [(each, others[each["seed"]]) for each in runs if each["seed"] in others]


def difference(values: Sequence[tuple[float, float]], form: str) -> str:
    """Format the mean of paired differences with its 95% interval: `-0.031 ± 0.004`."""
    if not values:
        return ""
    found = np.array([one - other for one, other in values])
    half = mean_half_width(found)
    return f"{found.mean():{form}}" + ("" if half is None else f" ± {half:{form[1:]}}")


def accuracy(run: dict[str, Any]) -> float:
    return float(run["probe"]["chosen"]["test_accuracy"])


def curve(runs: Runs) -> tuple[list[float], list[float]]:
    """Return FLOPs and validation losses, means over seeds, of the evaluations after step 0."""
    first = runs[0]
    steps = sorted(map(int, first["validation_nats"]))[1:]
    losses = [statistics.mean(each["validation_nats"][str(step)] for each in runs) for step in steps]
    return [first["flops"] * step / first["steps"] for step in steps], losses


def crossing_of_ends(found: dict[str, Any]) -> tuple[float, float, float | None]:
    """Return the last loss of the faithful recipe, its FLOPs, and those with which modern is as low."""
    ends = [of_row(found["runs"], end) for end in ENDS]
    (flops, losses), modern = (curve(runs) for runs in ends)
    return losses[-1], flops[-1], crossing(*modern, losses[-1])


def note(found: dict[str, Any]) -> str:
    ends = {end: of_row(found["runs"], end) for end in ENDS}
    first, (loss, whole, crossed) = ends["faithful"][0], crossing_of_ends(found)
    part = "at no step" if crossed is None else f"with {crossed / whole:.0%} of faithful's FLOPs"
    images, tried = first["probe"]["num_images"], {end: set[float]() for end in ENDS}
    for each in (each for each in found["runs"].values() if each["row"] in ENDS):
        tried[each["row"]].add(each["lr"])
    rates = (f"{each[0]['lr']:g} ({end}, best of {len(tried[end])})" for end, each in ends.items())
    larger = [
        f"{row}: {' '.join(runs[0]['settings'])}, {runs[0]['steps']:,} steps, {count_of(len(runs), 'seed')}"
        for row, runs in by_row(found).items()
        if "32x32" in row
    ]
    facts = (
        f"{found['data']}, {' '.join(found['shared'])}, {first['steps']} steps",
        *larger,
        f"mean ± std over {seeds(found)}, and 95% intervals of paired differences from the row's end, "
        "not adjusted for the number of rows",
        f"learning rates {', '.join(rates)} by the validation loss of seed 0",
        f"probe of {images['train']:,} training and {images['test']:,} test images, layer by validation",
        f"training on {found['device']}, isopix {found['isopix']}",
        f"inside its run, modern reaches faithful's last validation loss, {loss:.3f}, {part}",
    )
    return "; ".join(facts)


def seeds(found: dict[str, Any]) -> str:
    return count_of(len({each["seed"] for each in found["runs"].values()}), "seed")


@style.figure_style()
def plot(found: dict[str, Any]) -> style.Figure:
    """Plot the test loss of each row, a point per seed, and the losses of both ends by FLOPs."""
    every = {name: runs for name, runs in by_row(found).items() if "32x32" not in name}
    figure = style.new_figure(1.2 + 0.19 * len(every), 9.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1.0))
    for place, runs in enumerate(every.values()):
        losses, color = [each["test_nats"] for each in runs], COLORS[runs[0]["end"]]
        left.plot(losses, [place] * len(losses), "o", color=color, alpha=0.5)
        left.plot(statistics.mean(losses), place, "|", color=color, markersize=11, markeredgewidth=2)
    left.set_yticks(range(len(every)), list(every))
    left.set(xlabel="Test loss (nats)", ylim=(len(every) - 0.4, -0.6))
    left.grid(axis="x")
    for end in ENDS:
        right.plot(*curve(of_row(found["runs"], end)), "o-", color=COLORS[end], label=end)
    for runs in (runs for name, runs in every.items() if "of the steps" in name):
        right.plot(runs[0]["flops"], curve(runs)[1][-1], "s", color=COLORS["modern"], fillstyle="none")
    loss, whole, crossed = crossing_of_ends(found)
    right.axhline(loss, color=style.MUTED_COLOR, linestyle=style.DASHED, linewidth=1)
    if crossed is not None:
        right.plot(crossed, loss, "*", color=style.TEXT_COLOR, markersize=10, label=f"{crossed / whole:.0%}")
    right.set(xlabel="Training FLOPs", ylabel="Validation loss (nats)", xlim=(0, None))
    right.legend()
    key = f"left: {seeds(found)} and their mean; right: means; star: equal loss"
    style.add_key(figure, f"{key}; squares: shorter schedules")
    return figure


if __name__ == "__main__":
    content = read_json(Path(sys.argv[1]))
    print(ablation(content))
    style.write_figure(plot(content), Path(sys.argv[2]))
