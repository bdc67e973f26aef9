"""`isopix search-lr`: search for the learning rate over a decreasing grid."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.api import starts, training
from isopix.api.starts import LEARNING_RATE
from isopix.cli.console import (
    Device,
    Json,
    Limit,
    PaletteFile,
    Plugins,
    RunSeed,
    SettingsFile,
    Source,
    follow_up_options,
    load_plugins,
    note,
    say,
    say_wrapped,
    show_json,
    show_table,
)
from isopix.cli.launch import SlurmParameters, is_to_submit, submit
from isopix.cli.run_display import unless_stopped, with_resume_hint
from isopix.core.config import to_dict
from isopix.core.signals import STOPPED
from isopix.core.text import command_line, format_duration, format_loss
from isopix.runs.lr_search import FILE, trial_folder
from isopix.train.lr_search import LRSearch, LRTrial

MaxLR = Annotated[float, Parameter(help="Largest learning rate.")]
MinLR = Annotated[float, Parameter(help="Smallest learning rate to try.")]
Finetune = Annotated[
    bool,
    Parameter(
        negative="", help="Search for fine-tuning a recipe from scratch; run folders are always fine-tuned."
    ),
]


def search_lr(
    source: str,
    *settings: str,
    out: Path,
    data: Source = None,
    palette: PaletteFile = None,
    file: SettingsFile = None,
    limit: Limit = None,
    seed: RunSeed = None,
    finetune: Finetune = False,
    max_lr: MaxLR = 0.01,
    min_lr: MinLR = 0.00001,
    plugin: Plugins = None,
    device: Device = "auto",
    slurm: SlurmParameters = None,
    json: Json = False,
) -> None:
    """Search for the learning rate over a decreasing grid: 0.01, 0.003, 0.001, 0.0003 and so on.

    Trains one trial per learning rate and stops those that diverge. The search ends when the validation loss
    of a trial is higher than that of the one before; the lowest wins. A run folder is fine-tuned, and trials
    are compared by validation accuracy. Trials that end no better than the unigram frequencies of the codes,
    or than the majority class, have failed. Test images are not used. The same command resumes an interrupted
    search.

    Example: isopix search-lr igpt.tiny --data photos/ --out runs/photos-lr steps=300

    Parameters
    ----------
    source
        Name from `isopix recipe list`, or run folder of a pre-trained network to fine-tune.
    settings
        Settings to override, as name=value; `isopix recipe show` lists them.
    out
        Folder of the search: new, empty, or that of the same search to resume.
    """
    load_plugins(plugin)
    if is_to_submit(slurm):
        prepare = starts.search_start(
            source,
            data=data,
            overrides=settings,
            file=file,
            palette=palette,
            limit=limit,
            seed=seed,
            finetune=finetune,
        )
        check = partial(starts.check_search, prepare().recipe, out, max_lr, min_lr)
        submit(slurm, out, check, parallel=False, json=json)
        return
    again = command_line(*sys.argv[1:])
    with with_resume_hint(out, again):
        search = unless_stopped(
            lambda: training.search_lr(
                source,
                data=data,
                out=out,
                overrides=settings,
                file=file,
                palette=palette,
                limit=limit,
                seed=seed,
                finetune=finetune,
                max_lr=max_lr,
                min_lr=min_lr,
                device=device,
            )
        )
    given = {"--data": data, "--palette": palette, "--file": file, "--limit": limit, "--seed": seed}
    options = [word for name, value in given.items() if value is not None for word in (name, value)]
    tuned = finetune or Path(source).exists()
    words: list[object] = ["finetune" if tuned else "pretrain", source, *settings, *options]
    words += follow_up_options(plugin=plugin, device=device)
    _print_search(search, out, words, again=again, json=json)


def _print_search(search: LRSearch, out: Path, words: Sequence[object], *, again: str, json: bool) -> None:
    """Print all trials, and the command of `words` that trains with the chosen learning rate.

    Exits with code 75 if the search was asked to stop. Raises RuntimeError if no trial learned anything.
    """
    chosen = None if search.best is None else search.best.lr
    command = (
        "" if chosen is None else command_line(*words, f"{LEARNING_RATE}={chosen}", "--out", out / "chosen")
    )
    if json:
        state = {"finished": search.finished, "best_lr": chosen, "command": command or None}
        show_json({"record": str(out / FILE), **state, **to_dict(search)})
    else:
        _print_trials(search, out)
        if chosen is not None:
            say(f"best learning rate: {chosen}, trained in {trial_folder(out, chosen)}")
            say(f"{words[0]} with: {command}")
    if not search.finished:
        if not json:
            say(f"stopped and saved; resume with: {again}")
        raise SystemExit(STOPPED)
    if chosen is None:
        lrs = [trial.lr for trial in search.trials]
        raise RuntimeError(f"every trial from lr {lrs[0]} to {lrs[-1]} diverged or failed to learn")


def _print_trials(search: LRSearch, out: Path) -> None:
    """Print the table of trials, and whether a smaller learning rate might be better."""
    rows = [_format_trial(trial, chosen=trial == search.best) for trial in search.trials]
    status = "not needed" if search.finished else "pending"
    rows += [(str(rate), status, "", "", "") for rate in search.remaining]
    title = f"Learning-rate search in {out}; * best"
    tuned = any(trial.accuracy is not None for trial in search.trials)
    result = "validation accuracy" if tuned else "validation loss (nats)"
    show_table(title, ["lr", "status", result, "step" if tuned else "steps", "time"], rows)
    for trial in search.trials:
        if trial.reason:
            say_wrapped(f"lr {trial.lr} failed: {trial.reason}")
    if search.best is not None and not search.worsened:
        note(
            f"the {'accuracy was still rising' if tuned else 'loss was still falling'} at the smallest "
            "learning rate; continue with a smaller --min-lr"
        )
    if search.best is not None and search.best == search.trials[0]:
        note("the best learning rate is the largest that was tried; search with a larger --max-lr, too")


def _format_trial(trial: LRTrial, *, chosen: bool) -> tuple[str, ...]:
    ended = trial.status in ("completed", "failed")
    status = trial.status if ended else f"{trial.status} at step {trial.step:,}"
    result = "" if trial.loss is None else format_loss(trial.loss)
    result = result if trial.accuracy is None else f"{trial.accuracy:.1%}"
    steps = f"{trial.step:,}" if ended else ""
    return f"{trial.lr}{' *' if chosen else ''}", status, result, steps, format_duration(trial.seconds)
