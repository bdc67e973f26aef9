"""`isopix search-lr`: the paper's search for a learning rate."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.cli.console import (
    Device,
    Json,
    Limit,
    OwnSeed,
    PaletteFile,
    SettingsFile,
    Source,
    changes,
    say,
    show_json,
    show_table,
)
from isopix.cli.progress import clock
from isopix.cli.run_display import INTERRUPTED, going_on, watching
from isopix.core import device as devices
from isopix.core.command_line import command
from isopix.core.config import to_dict
from isopix.core.overrides import parse
from isopix.recipes import registry
from isopix.runs.lr_search import FILE, pretrain_runner, trial_folder
from isopix.runs.lr_search import search_lr as search
from isopix.runs.training import RunObserver
from isopix.train.lr_search import LRSearch, LRTrial, lr_grid

RATE = "train.optimizer.lr"

First = Annotated[float, Parameter(help="the largest rate")]
Smallest = Annotated[float, Parameter(help="the rate at which the descent ends if the loss still falls")]


def search_lr(
    recipe: str,
    *settings: str,
    out: Path,
    data: Source = None,
    palette: PaletteFile = None,
    file: SettingsFile = None,
    limit: Limit = None,
    seed: OwnSeed = None,
    first: First = 0.01,
    smallest: Smallest = 0.00001,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Search for a learning rate from large to small: 0.01, 0.003, 0.001, 0.0003 and so on.

    Every rate has a run of its own, which is given up where its loss is no number or has risen for good. The
    search ends once a run's final validation loss is higher than the one before, and chooses the lowest.
    Interrupted at any moment, the same command goes on. Test images are not looked at.

    Example: isopix search-lr igpt.tiny --data photos/ --out runs/photos-lr steps=300

    Parameters
    ----------
    recipe
        A name from `isopix recipe list`.
    settings
        Changes, as path=value; `isopix recipe show` lists the paths.
    out
        The folder of the search; new, empty, or that of the same search.
    """
    if {"lr", "optimizer.lr", RATE} & parse(settings).keys():
        raise ValueError(f"{RATE} is what search-lr looks for; give --first and --smallest instead")
    options = changes(data=data, limit=limit, seed=seed, palette=palette)
    settled = registry.resolve(recipe, file=file, options=options, assignments=settings).recipe
    rates, where = lr_grid(first, smallest), devices.pick(device)

    @contextmanager
    def telling(rate: float) -> Iterator[RunObserver]:
        if not json:
            say(f"\n{settled.name} at rate {rate}, {settled.train.steps} steps of {settled.train.batch_size}")
        with watching(settled, where, tensorboard=False, json=json) as watch:
            yield watch

    again = command(*sys.argv[1:])
    with going_on(out, again):
        descent = search(out, rates, runner=pretrain_runner(settled, where), observer_for=telling)
    given = {"--data": data, "--palette": palette, "--file": file, "--limit": limit, "--seed": seed}
    words = [word for name, value in given.items() if value is not None for word in (name, value)]
    conclude(descent, out, ["pretrain", recipe, *settings, *words], again=again, json=json)


def conclude(descent: LRSearch, out: Path, words: Sequence[object], *, again: str, json: bool) -> None:
    """Say what became of every rate, and the command of `words` that pre-trains with the one that was chosen.

    Exits with 75 for a search that was asked to stop. Raises RuntimeError if no rate survived.
    """
    chosen = None if descent.best is None else descent.best.lr
    then = "" if chosen is None else command(*words, f"{RATE}={chosen}", "--out", out / "chosen")
    if json:
        state = {"finished": descent.finished, "best_lr": chosen, "command": then or None}
        show_json({"record": str(out / FILE), **state, **to_dict(descent)})
    else:
        show(descent, out)
        if chosen is not None:
            say(f"chosen: {chosen}, trained in {trial_folder(out, chosen)}")
            say(f"to pre-train with it: {then}")
    if not descent.finished:
        if not json:
            say(f"stopped and saved; go on with: {again}")
        raise SystemExit(INTERRUPTED)
    if chosen is None:
        raise RuntimeError(f"no rate from {descent.lrs[0]} down to {descent.lrs[-1]} survived")


def show(descent: LRSearch, out: Path) -> None:
    """The table of rates, and whether a smaller one might be better still."""
    rows = [row(rung, chosen=rung == descent.best) for rung in descent.trials]
    left = "not needed" if descent.finished else "not yet"
    rows += [(str(rate), left, "", "", "") for rate in descent.remaining]
    title = f"Descent of the learning rate in {out}; * chosen"
    show_table(title, ["rate", "fate", "validation loss, nats", "steps", "time"], rows)
    if descent.best is not None and not descent.increased:
        say("note: the loss was still falling at the smallest rate; go on with a smaller --smallest")


def row(rung: LRTrial, *, chosen: bool) -> tuple[str, ...]:
    """A rung as the cells of the table."""
    fate = "completed" if rung.loss is not None else f"{rung.status} at step {rung.step:,}"
    loss, steps = ("", "") if rung.loss is None else (f"{rung.loss:.4f}", f"{rung.step:,}")
    return f"{rung.lr}{' *' if chosen else ''}", fate, loss, steps, clock(rung.seconds)
