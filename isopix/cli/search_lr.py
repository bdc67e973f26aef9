"""`isopix search-lr`: search for the learning rate over a decreasing grid."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.api import training
from isopix.api.training import LEARNING_RATE
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
    plugin_options,
    say,
    show_json,
    show_table,
)
from isopix.cli.progress import format_duration
from isopix.cli.run_display import INTERRUPTED, TrainingDisplay, unless_stopped, with_resume_hint
from isopix.core.command_line import command_line
from isopix.core.config import to_dict
from isopix.runs.lr_search import FILE, trial_folder
from isopix.train.lr_search import LRSearch, LRTrial

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
    """Search for the learning rate over a decreasing grid: 0.01, 0.003, 0.001, 0.0003 and so on.

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
    again = command_line(*sys.argv[1:])
    with with_resume_hint(out, again), TrainingDisplay(device, json=json) as display:
        search = unless_stopped(
            lambda: training.search_lr(
                recipe,
                data=data,
                out=out,
                overrides=settings,
                file=file,
                palette=palette,
                limit=limit,
                seed=seed,
                max_lr=max_lr,
                min_lr=min_lr,
                device=device,
                progress=display,
            )
        )
    given = {"--data": data, "--palette": palette, "--file": file, "--limit": limit, "--seed": seed}
    options = [word for name, value in given.items() if value is not None for word in (name, value)]
    words = ["pretrain", recipe, *settings, *options, *plugin_options(plugin)]
    _print_search(search, out, words, again=again, json=json)


def _print_search(search: LRSearch, out: Path, words: Sequence[object], *, again: str, json: bool) -> None:
    """Print all trials, and the command of `words` that pre-trains with the chosen learning rate.

    Exits with code 75 if the search was asked to stop. Raises RuntimeError if every trial diverged.
    """
    chosen = None if search.best is None else search.best.lr
    pretrain = (
        "" if chosen is None else command_line(*words, f"{LEARNING_RATE}={chosen}", "--out", out / "chosen")
    )
    if json:
        state = {"finished": search.finished, "best_lr": chosen, "command": pretrain or None}
        show_json({"record": str(out / FILE), **state, **to_dict(search)})
    else:
        _print_trials(search, out)
        if chosen is not None:
            say(f"best learning rate: {chosen}, trained in {trial_folder(out, chosen)}")
            say(f"pre-train with: {pretrain}")
    if not search.finished:
        if not json:
            say(f"stopped and saved; resume with: {again}")
        raise SystemExit(INTERRUPTED)
    if chosen is None:
        raise RuntimeError(f"every trial from lr {search.lrs[0]} to {search.lrs[-1]} diverged")


def _print_trials(search: LRSearch, out: Path) -> None:
    """Print the table of trials, and whether a smaller learning rate might be better."""
    rows = [_format_trial(trial, chosen=trial == search.best) for trial in search.trials]
    status = "not needed" if search.finished else "pending"
    rows += [(str(rate), status, "", "", "") for rate in search.remaining]
    title = f"Learning-rate search in {out}; * best"
    show_table(title, ["lr", "status", "validation loss (nats)", "steps", "time"], rows)
    if search.best is not None and not search.increased:
        say(
            "note: the loss was still falling at the smallest learning rate; continue with a smaller --min-lr"
        )


def _format_trial(trial: LRTrial, *, chosen: bool) -> tuple[str, ...]:
    status = "completed" if trial.loss is not None else f"{trial.status} at step {trial.step:,}"
    loss, steps = ("", "") if trial.loss is None else (f"{trial.loss:.4f}", f"{trial.step:,}")
    return f"{trial.lr}{' *' if chosen else ''}", status, loss, steps, format_duration(trial.seconds)
