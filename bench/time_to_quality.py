"""Minutes of training to a loss: transformers' ImageGPT, the faithful recipe and the modern one.

python bench/run.py time-to-quality --data cifar10 --out bench/results/time-to-quality.json     # hours
python bench/time_to_quality.py time-to-quality.json docs/pictures/time-to-quality     # table and figure

All have the same images, codes, held-out images and cores, and take turns, with schedules of more and more
steps, until one ends at the lowest loss. The peer has the weights that the faithful recipe starts with, fused
Adam, bf16 where the device has it, no dropout, and is compiled if that is faster; its images are encoded
before, and its first step, which may compile, does not count. Runs are recorded as those of `ablation.py`.
"""

import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from cells import format_ratio, read, table, threads
from matplotlib.ticker import LogLocator, StrMethodFormatter
from recorded_runs import RecordedRuns, costs, length, of_row, parser
from speed import image_gpt
from torch import Tensor
from torch.nn import functional as F

from isopix.core.device import autocast, native_precision, peak_memory_so_far, reuse_freed_memory
from isopix.core.text import format_bytes
from isopix.data.batches import Batches
from isopix.data.load import load_dataset
from isopix.data.splits import Split
from isopix.plots import style
from isopix.recipes import registry
from isopix.runs.pretrain import fit_codec
from isopix.storage.atomic import read_json

PEER, FORM = "transformers", "transformers, eager and compiled"
SIDES = {PEER: "igpt.tiny", "faithful": "igpt.tiny", "modern": "modern.tiny"}
BUDGETS = (25, 35, 50, 71, 100, 141, 200, 283, 400, 566, 800)  # steps of whole schedules
TUNED = 400
LOSSES = (3.40, 3.25, 3.17)  # nats per pixel of test images
TIMED, FEW = 8, ("evaluate_images=16", "num_test_images=16")  # decide whether the peer is compiled
CPU = torch.device("cpu")


class Peer:
    """ImageGPT of transformers with the settings of a recipe, and its images as codes."""

    def __init__(self, settings: tuple[str, ...], palette: str, *, compiled: bool):
        reuse_freed_memory()  # as isopix in training
        options = {"codec.palette_file": palette}
        self.recipe = recipe = registry.resolve(SIDES[PEER], settings=settings, options=options).recipe
        self.data = load_dataset(recipe.data)
        self.codec = fit_codec(recipe, self.data)
        self.model = image_gpt.with_weights_of(recipe.build(self.codec)).train()
        self.codes = self.encode(self.data.train)
        self.loss: Callable[[Tensor], Tensor] = torch.compile(self._loss) if compiled else self._loss
        self.optimizer = torch.optim.Adam(self.model.parameters(), betas=(0.9, 0.95), fused=True)

    def encode(self, split: Split) -> Tensor:
        parts = (split.images[i : i + 1000] for i in range(0, len(split), 1000))
        return torch.cat([self.codec.encode(part)[..., 0] for part in parts])

    def _loss(self, codes: Tensor) -> Tensor:
        start = codes.new_full((len(codes), 1), self.codec.vocab_size)
        with autocast(CPU, native_precision(CPU)):
            logits = self.model(input_ids=torch.cat([start, codes[:, :-1]], 1)).logits
        return F.cross_entropy(logits.float().flatten(0, 1), codes.flatten())

    def step(self, codes: Tensor, lr: float) -> float:
        """Update the weights, and return the seconds."""
        started = time.perf_counter()
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(codes).backward()
        self.optimizer.step()
        return time.perf_counter() - started

    @torch.no_grad()
    def evaluate(self, split: Split) -> float:
        codes = self.encode(split)
        return sum(float(self._loss(part)) * len(part) for part in codes.split(16)) / len(codes)

    def train(self) -> dict[str, Any]:
        """Train for the whole schedule, and return the numbers of `recorded_runs`."""
        train = self.recipe.train
        seconds, losses = list[float](), dict[str, float]()
        validation = self.data.validation.sample(train.evaluate_images)
        batches = Batches(self.data.train, batch_size=train.batch_size, seed=train.seed)
        for step in range(train.steps):
            factor = train.schedule.factor(step, steps=train.steps, epoch=batches.steps_per_epoch)
            seconds.append(self.step(self.codes[batches.order.indices(step)], factor * train.optimizer.lr))
            if (step + 1) % train.evaluate_every == 0 or step + 1 == train.steps:
                losses[str(step + 1)] = self.evaluate(validation)
        return {
            **costs(self.recipe),
            "validation_nats": losses,
            "test_nats": self.evaluate(self.data.test.sample(train.num_test_images)),
            "seconds": statistics.mean(seconds[1:]) * train.steps,
            "first_step_seconds": seconds[0],
            "peak_memory_bytes": peak_memory_so_far(CPU),
        }


def train_peer(settings: tuple[str, ...], palette: str, compiled: bool) -> dict[str, Any]:
    return Peer(settings, palette, compiled=compiled).train()


class TimeToQuality(RecordedRuns):
    evaluations = 1

    def measure(self, row: str, side: str, steps: int, lr: float, seed: int = 0) -> dict[str, Any]:
        """Return the record of a side's training with a schedule of these steps."""

        def measured(folder: Path) -> dict[str, Any]:
            if side == PEER:
                found = self.peer(steps, lr, seed, compiled=self.compiled())
            else:
                found = self.train(folder, SIDES[side], f"lr={lr}", seed=seed, steps=steps)
            return {"row": row, **found, "seed": seed}

        return self.run(f"{row}, {steps} steps, lr {lr:g}, seed {seed}", steps, measured)

    def peer(self, steps: int, lr: float, seed: int, *more: str, compiled: bool) -> dict[str, Any]:
        """Train the peer in a process of its own, whose peak of memory is that of the run."""
        own = (f"data.source={self.options.data}", f"seed={seed}", f"lr={lr}")
        settings = (*self.shared, *own, *length(steps, self.evaluations), *more)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(train_peer, settings, self.options.palette, compiled).result()

    def compiled(self) -> bool:
        """Return whether a step of the peer is faster compiled."""

        def measured(folder: Path) -> dict[str, Any]:
            found = (self.peer(TIMED, 0.001, 0, *FEW, compiled=choice)["seconds"] for choice in (False, True))
            return {"row": FORM, "seed": 0, "seconds": list(found)}

        eager, compiled = self.run(FORM, TIMED, measured)["seconds"]
        return bool(compiled < eager)

    def rate(self, side: str) -> float:
        """Return the learning rate of an ablation, or the best of five."""
        if self.options.rates and side != PEER:
            return float(of_row(read_json(self.options.rates)["runs"], side)[0]["lr"])
        base, steps = registry.find(SIDES[side]).train.optimizer.lr, min(TUNED, self.steps)
        return self.best_rate(base, lambda lr: self.measure(f"{side}, tuning", side, steps, lr))


def run(words: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("--rates", type=Path, help="an ablation's file, whose learning rates isopix takes")
    given = options.parse_args(words)
    runs = TimeToQuality("time-to-quality", given, max(BUDGETS))
    rates = {side: runs.rate(side) for side in SIDES}
    for seed in range(given.seeds):
        missing = dict.fromkeys(SIDES)
        for steps in (4, 8) if given.tiny else BUDGETS:
            for side in tuple(missing):
                if runs.measure(side, side, steps, rates[side], seed)["test_nats"] <= min(LOSSES):
                    del missing[side]


def schedules(found: dict[str, Any], side: str) -> dict[int, list[dict[str, Any]]]:
    """Return the runs of a side by their number of steps."""
    runs = [each for each in found["runs"].values() if each["row"] == side]
    steps = sorted({each["steps"] for each in runs})
    return {count: [each for each in runs if each["steps"] == count] for count in steps}


def shortest(found: dict[str, Any], side: str, loss: float) -> list[dict[str, Any]]:
    """Return the run of each seed with the fewest steps that ends at a loss or below."""
    reached: dict[int, dict[str, Any]] = {}
    for each in chain.from_iterable(schedules(found, side).values()):
        if each["test_nats"] <= loss:
            reached.setdefault(each["seed"], each)
    return list(reached.values())


def time_to_quality(found: dict[str, Any] | None = None) -> str:
    """Return a row for each loss and side: minutes, their ratio to the peer's, FLOPs and memory."""
    found = found or read("time-to-quality.json")
    rows = []
    for loss, side in product(LOSSES, SIDES):
        runs, peer = shortest(found, side, loss), shortest(found, PEER, loss)
        cells = costs_to(runs, peer) if runs else ("not reached", *"–––––")
        rows.append((f"{loss:.2f}", side, *cells))
    columns = ("loss", "", "minutes (range)", "n", "ratio", "steps", "FLOPs", "peak memory")
    return f"{table(columns, rows)}\n{note(found)}\n"


def costs_to(runs: list[dict[str, Any]], peer: list[dict[str, Any]]) -> tuple[str, ...]:
    minutes, theirs = ([each["seconds"] / 60 for each in group] for group in (runs, peer))
    middle = statistics.median(minutes)
    return (
        f"{middle:.1f} ({min(minutes):.1f} to {max(minutes):.1f})",
        str(len(runs)),
        format_ratio(statistics.median(theirs) / middle) if theirs else "",
        ", ".join(dict.fromkeys(str(each["steps"]) for each in runs)),
        f"{statistics.median(each['flops'] for each in runs):.1e}",
        format_bytes(statistics.median(each["peak_memory_bytes"] for each in runs)),
    )


def note(found: dict[str, Any]) -> str:
    eager, compiled = found["runs"][FORM]["seconds"]
    rates = {side: next(iter(schedules(found, side).values()))[0]["lr"] for side in SIDES}
    facts = (
        f"{found['data']}, {' '.join(found['shared'])}",
        "minutes without evaluations of the shortest schedule that ends at the test loss, over seeds",
        f"learning rates {', '.join(f'{lr:g} ({side})' for side, lr in rates.items())}",
        f"transformers {'compiled' if compiled < eager else 'eager, which is faster than compiled'}",
        f"{threads(found)} of {found['device']}, isopix {found['isopix']}",
    )
    return "; ".join(facts)


@style.figure_style()
def plot(found: dict[str, Any]) -> style.Figure:
    """Plot the test loss at the end of each schedule by its minutes."""
    figure = style.new_figure(3.4)
    axes = figure.subplots()
    for color, side in zip(style.COLORS, ("faithful", "modern", PEER), strict=False):
        every = schedules(found, side).values()
        minutes = [[each["seconds"] / 60 for each in runs] for runs in every]
        losses = [[each["test_nats"] for each in runs] for runs in every]
        axes.plot([*map(statistics.mean, minutes)], [*map(statistics.mean, losses)], color=color, label=side)
        axes.plot([*chain(*minutes)], [*chain(*losses)], "o", color=color, alpha=0.5)
    for loss in LOSSES:
        axes.axhline(loss, color=style.MUTED_COLOR, linestyle=style.DASHED, linewidth=1)
    axes.set(xlabel="Minutes of training", ylabel="Test loss (nats per pixel)", xscale="log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.legend()
    style.add_key(figure, "a point for each schedule and seed")
    return figure


if __name__ == "__main__":
    content = read_json(Path(sys.argv[1]))
    print(time_to_quality(content))
    style.write_figure(plot(content), Path(sys.argv[2]))
