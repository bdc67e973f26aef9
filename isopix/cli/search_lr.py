"""`isopix search-lr`: search for the learning rate, from large to small."""

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
    PaletteFile,
    Plugins,
    RunSeed,
    SettingsFile,
    Source,
    load_plugins,
    overrides,
    plugin_options,
    say,
    show_json,
    show_table,
)
from isopix.cli.progress import format_duration
from isopix.cli.run_display import INTERRUPTED, progress_display, with_resume_hint
from isopix.core import device as devices
from isopix.core.command_line import command_line
from isopix.core.config import to_dict
from isopix.core.overrides import parse
from isopix.recipes import registry
from isopix.runs.lr_search import FILE, pretrain_runner, trial_folder
from isopix.runs.lr_search import search_lr as search
from isopix.runs.training import RunObserver
from isopix.train.lr_search import LRSearch, LRTrial, lr_grid

RATE = "train.optimizer.lr"

MaxLR = Annotated[float, Parameter(help="Largest learning rate.")]
MinLR = Annotated[float, Parameter(help="Smallest learning rate to try.")]


def search_lr(
    recipe: str,
    *settings: str,
    out: Path,
    data: Source = None,
    palette: PaletteFile = None,
    file: SettingsFile = None,
    limit: Limit = None,
    seed: RunSeed = None,
    max_lr: MaxLR = 0.01,
    min_lr: MinLR = 0.00001,
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Search for the learning rate, from large to small: 0.01, 0.003, 0.001, 0.0003 and so on.

    Trains one trial per learning rate and stops those that diverge. The search ends when the validation loss
    of a trial is higher than that of the one before; the lowest wins. Test images are not used. The same
    command resumes an interrupted search.

    Example: isopix search-lr igpt.tiny --data photos/ --out runs/photos-lr steps=300

    Parameters
    ----------
    recipe
        Name from `isopix recipe list`.
    settings
        Settings to override, as name=value; `isopix recipe show` lists them.
    out
        Folder of the search: new, empty, or that of the same search to resume.
    """
    load_plugins(plugin)
    if {"lr", "optimizer.lr", RATE} & parse(settings).keys():
        raise ValueError(f"{RATE} is what search-lr searches for; use --max-lr and --min-lr instead")
    changes = overrides(data=data, limit=limit, seed=seed, palette=palette)
    resolved = registry.resolve(recipe, file=file, options=changes, assignments=settings).recipe
    rates, where = lr_grid(max_lr, min_lr), devices.select_device(device)

    @contextmanager
    def display(rate: float) -> Iterator[RunObserver]:
        if not json:
            train = resolved.train
            say(f"\n{resolved.name}, lr {rate}, {train.steps} steps, batch size {train.batch_size}")
        with progress_display(resolved, where, tensorboard=False, json=json) as watch:
            yield watch

    again = command_line(*sys.argv[1:])
    with with_resume_hint(out, again):
        descent = search(out, rates, runner=pretrain_runner(resolved, where), observer_for=display)
    given = {"--data": data, "--palette": palette, "--file": file, "--limit": limit, "--seed": seed}
    options = [word for name, value in given.items() if value is not None for word in (name, value)]
    words = ["pretrain", recipe, *settings, *options, *plugin_options(plugin)]
    _print_search(descent, out, words, again=again, json=json)


def _print_search(descent: LRSearch, out: Path, words: Sequence[object], *, again: str, json: bool) -> None:
    """Print all trials, and the command of `words` that pre-trains with the chosen learning rate.

    Exits with code 75 if the search was asked to stop. Raises RuntimeError if every trial diverged.
    """
    chosen = None if descent.best is None else descent.best.lr
    pretrain = "" if chosen is None else command_line(*words, f"{RATE}={chosen}", "--out", out / "chosen")
    if json:
        state = {"finished": descent.finished, "best_lr": chosen, "command": pretrain or None}
        show_json({"record": str(out / FILE), **state, **to_dict(descent)})
    else:
        _print_trials(descent, out)
        if chosen is not None:
            say(f"best learning rate: {chosen}, trained in {trial_folder(out, chosen)}")
            say(f"pre-train with: {pretrain}")
    if not descent.finished:
        if not json:
            say(f"stopped and saved; resume with: {again}")
        raise SystemExit(INTERRUPTED)
    if chosen is None:
        raise RuntimeError(f"every trial from lr {descent.lrs[0]} to {descent.lrs[-1]} diverged")


def _print_trials(descent: LRSearch, out: Path) -> None:
    """Print the table of trials, and whether a smaller learning rate might be better."""
    rows = [_format_trial(rung, chosen=rung == descent.best) for rung in descent.trials]
    status = "not needed" if descent.finished else "pending"
    rows += [(str(rate), status, "", "", "") for rate in descent.remaining]
    title = f"Learning-rate search in {out}; * best"
    show_table(title, ["lr", "status", "validation loss (nats)", "steps", "time"], rows)
    if descent.best is not None and not descent.increased:
        say(
            "note: the loss was still falling at the smallest learning rate; continue with a smaller --min-lr"
        )


def _format_trial(rung: LRTrial, *, chosen: bool) -> tuple[str, ...]:
    status = "completed" if rung.loss is not None else f"{rung.status} at step {rung.step:,}"
    loss, steps = ("", "") if rung.loss is None else (f"{rung.loss:.4f}", f"{rung.step:,}")
    return f"{rung.lr}{' *' if chosen else ''}", status, loss, steps, format_duration(rung.seconds)
