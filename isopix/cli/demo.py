"""`isopix demo`: a tour of isopix on data that needs no download."""

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.api.starts import resolve_recipe
from isopix.cli.command import print_result
from isopix.cli.console import Device, Json, Plugins, Positive, Seed, load_plugins, say
from isopix.cli.report import report
from isopix.cli.run_display import with_resume_hint
from isopix.cli.training_jobs import TrainingJob, train_side_by_side
from isopix.core.signals import STOPPED
from isopix.core.text import command_line
from isopix.data.dataset import load_dataset
from isopix.runs.load import saved_recipe
from isopix.verbs.complete import complete, reconstruct
from isopix.verbs.low_data import low_data
from isopix.verbs.probe import probe
from isopix.verbs.sample import sample

RECIPES = {
    "ar": "igpt.translated_digits",
    "bert": "igpt.translated_digits_bert",
    "conv": "isotropic.translated_digits-conv-pix2vec-3",
}
FEW_LABELS = [5, 20]  # of each class
PROBE_LIMIT = 4000  # images of each split that probes read: all for validation and test


def demo(
    *settings: str,
    out: Path = Path("runs/demo"),
    seed: Seed = 0,
    jobs: Annotated[int, Parameter(validator=Positive)] | None = None,
    plugin: Plugins = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Pre-train three small networks on translated digits, probe them, sample, and write a report.

    The networks are an autoregressive and a masked Image GPT, and a masked convolutional network. They are
    trained side by side.

    The same command resumes an interrupted demo; after a finished one it starts another in a new folder.

    Example: isopix demo

    Parameters
    ----------
    settings
        Settings to override in all recipes, as name=value.
    out
        Parent folder of all demos, which are numbered.
    jobs
        Number of networks that are trained at a time. Default: all on a CPU, one per GPU.
    """
    load_plugins(plugin)
    folder = demo_folder(out)
    again = command_line(*sys.argv[1:])
    with with_resume_hint(folder, again), redirect_stdout(sys.stderr) if json else nullcontext():
        _train(folder, settings, seed, jobs, plugin, device, again)
        _measure(folder, seed, device)
    report(*(folder / name for name in RECIPES), out=folder / "report.html", json=json)


def _train(
    folder: Path,
    settings: tuple[str, ...],
    seed: int,
    jobs: int | None,
    plugins: list[Path] | None,
    device: str,
    again: str,
) -> None:
    """Train all networks, or exit with code 75 after a stop."""
    trainings = []
    for name, recipe in RECIPES.items():
        steps = resolve_recipe(recipe, overrides=settings).train.steps
        trainings.append(TrainingJob(recipe, settings, folder / name, seed, steps, tuple(plugins or ())))
    say(f"demo in {folder}: about five minutes on two CPU cores with the default settings")
    if not train_side_by_side(trainings, device, jobs):
        say(f"stopped and saved; resume with: {again}")
        raise SystemExit(STOPPED)


def _measure(folder: Path, seed: int, device: str) -> None:
    """Do everything else but the report."""
    for name, recipe in RECIPES.items():
        _heading(recipe)
        print_result(probe(folder / name, limit=PROBE_LIMIT, seed=seed, device=device), json=False)
    _heading("samples")
    print_result(sample(folder / "ar", count=40, seed=seed, device=device), json=False)
    print_result(complete(folder / "ar", count=8, seed=seed, device=device), json=False)
    for name in ("bert", "conv"):
        print_result(reconstruct(folder / name, count=8, seed=seed, device=device), json=False)
    if labels := few_labels(folder / "ar"):
        _heading("few labels")
        print_result(low_data(folder / "ar", labels=labels, subsets=3, device=device), json=False)
    _heading("report")


def _heading(text: str) -> None:
    """Print a heading after an empty line."""
    say("")
    say(text)


def few_labels(run: Path) -> list[int | str]:
    """Return those of FEW_LABELS for which every class has enough training images."""
    labels = load_dataset(saved_recipe(run).data).train.labels
    assert labels is not None, "probes have read them"
    fewest = int(labels.bincount().min())
    return [count for count in FEW_LABELS if count <= fewest]


def demo_folder(out: Path) -> Path:
    """Return the newest demo if it has no report yet and can be resumed, else the next number."""
    numbers = sorted(int(path.name) for path in out.glob("*") if path.name.isdigit())
    newest = out / str(numbers[-1] if numbers else 0)
    resumable = all(has_checkpoint(run) or not run.exists() for run in (newest / name for name in RECIPES))
    if newest.exists() and resumable and not (newest / "report.html").exists():
        return newest
    return out / str(int(newest.name) + 1)


def has_checkpoint(run: Path) -> bool:
    """Return whether a run has a checkpoint to resume from."""
    return any(run.glob("checkpoints/step-*"))
