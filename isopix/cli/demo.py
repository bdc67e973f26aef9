"""`isopix demo`: the whole of isopix in a few minutes, on data that needs no download."""

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

from isopix.cli.complete import complete
from isopix.cli.console import Device, Json, Seed, say
from isopix.cli.pretrain import pretrain
from isopix.cli.probe import probe
from isopix.cli.reconstruct import reconstruct
from isopix.cli.report import report
from isopix.cli.resume import resume
from isopix.cli.run_display import going_on
from isopix.cli.sample import sample
from isopix.core.command_line import command_line

RECIPES = {"ar": "igpt.digits", "bert": "igpt.digits_bert"}


def demo(
    *settings: str,
    out: Path = Path("runs/demo"),
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Pre-train two small Image GPTs on scikit-learn's digits, probe them, let them draw, and report.

    An interrupted demo goes on where it stopped; a finished one is left alone, and a new one takes the next
    number.

    Example: isopix demo

    Parameters
    ----------
    settings
        Changes to both recipes, as path=value.
    out
        The folder of all demos.
    """
    folder = unfinished(out)
    again = command_line(*sys.argv[1:])
    with going_on(folder, again), redirect_stdout(sys.stderr) if json else nullcontext():
        _make(folder, settings, seed, device, again)
    report(*(folder / name for name in RECIPES), out=folder / "report.html", json=json)


def _make(folder: Path, settings: tuple[str, ...], seed: int, device: str, again: str) -> None:
    """Everything but the report."""
    say(f"demo in {folder}: about five minutes on two cores")
    for name, recipe in RECIPES.items():
        run = folder / name
        say(f"\n{recipe}")
        if started(run):
            resume(run, device=device, again=again)
        else:
            pretrain(recipe, *settings, out=run, seed=seed, device=device, again=again)
        probe(run, seed=seed, device=device)
    say("\npictures")
    sample(folder / "ar", count=40, seed=seed, device=device)
    complete(folder / "ar", count=8, each=3, seed=seed, device=device)
    reconstruct(folder / "bert", count=8, seed=seed, device=device)
    say("\nreport")


def unfinished(out: Path) -> Path:
    """The newest demo, if it has no report yet and can go on, or the next number."""
    numbers = sorted(int(path.name) for path in out.glob("*") if path.name.isdigit())
    newest = out / str(numbers[-1] if numbers else 0)
    can_go_on = all(started(run) or not run.exists() for run in (newest / name for name in RECIPES))
    if newest.exists() and can_go_on and not (newest / "report.html").exists():
        return newest
    return out / str(int(newest.name) + 1)


def started(run: Path) -> bool:
    """Whether there is a checkpoint to go on from."""
    return any(run.glob("checkpoints/step-*"))
