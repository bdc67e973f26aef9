"""`isopix demo`: a tour of isopix on data that needs no download."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from isopix.core.choices import Count as Positive
from isopix.core.progress import announce, track
from isopix.core.verb import verb
from isopix.reporting.results import ReportResult
from isopix.verbs.options import DeviceLike, Seed, Settings
from isopix.verbs.pretrain import same_command

RECIPES = {
    "ar": "igpt.translated_digits",
    "bert": "igpt.translated_digits_bert",
    "conv": "isotropic.translated_digits-conv-pix2vec-3",
}
FEW_LABELS = (5, 20)  # of each class
PROBE_LIMIT = 4000  # images of each split that probes read: all for validation and test
POLL_SECONDS, TAIL = 0.2, 4096  # bytes of a log that have its last line

Out = Annotated[Path, Parameter(help="Parent folder of all demos, which are numbered.")]
Jobs = Annotated[
    Positive | None,
    Parameter(help="Number of networks that are trained at a time. Default: all on a CPU, one per GPU."),
]


@verb()
def demo(
    *settings: Settings,
    out: Out = Path("runs/demo"),
    seed: Seed = 0,
    jobs: Jobs = None,
    device: DeviceLike = "auto",
) -> ReportResult:
    """Pre-train three small networks on translated digits, probe them, sample, and write a report.

    The networks are an autoregressive and a masked Image GPT, and a masked convolutional network. They are
    trained side by side. The same command resumes an interrupted demo; after a finished one it starts another
    in a new folder.

    Example: isopix demo
    """
    from isopix.core.signals import with_resume_hint
    from isopix.recipes.registry import resolve
    from isopix.verbs.complete import complete, reconstruct
    from isopix.verbs.low_data import low_data
    from isopix.verbs.probe import probe
    from isopix.verbs.report import report
    from isopix.verbs.sample import sample

    folder = demo_folder(out)
    announce(f"demo in {folder}: about five minutes on two CPU cores with the default settings")
    resolved = [resolve(each, assignments=settings).recipe for each in RECIPES.values()]
    options = ["--seed", str(seed), *_plugin_options()]
    commands = {
        folder / name: (
            ["resume", str(folder / name), *_plugin_options()]
            if _has_checkpoint(folder / name)
            else ["pretrain", recipe, *settings, "--out", str(folder / name), *options]
        )
        for name, recipe in RECIPES.items()
    }
    with with_resume_hint(folder, same_command()):
        train_side_by_side(commands, sum(each.train.steps for each in resolved), str(device), jobs)
        for name in RECIPES:
            announce(str(probe(folder / name, limit=PROBE_LIMIT, seed=seed, device=device)))
        sample(folder / "ar", count=40, seed=seed, device=device)
        complete(folder / "ar", count=8, each=3, seed=seed, device=device)
        for name in ("bert", "conv"):
            reconstruct(folder / name, count=8, seed=seed, device=device)
        if labels := _few_labels(folder / "ar"):
            announce(str(low_data(folder / "ar", labels=labels, subsets=3, device=device)))
    return report(*(folder / name for name in RECIPES), out=folder / "report.html")


def train_side_by_side(
    commands: Mapping[Path, Sequence[str]], steps: int, device: str, count: int | None = None
) -> None:
    """Run commands that train runs, `count` at a time, by default all on a CPU and one per GPU.

    Raises RuntimeError with the message of the first that fails, StopSignal once all have saved and stopped.
    """
    from isopix.core import device as devices
    from isopix.core.signals import StopSignal, stop_requested
    from isopix.studies.executor import slots_on

    available = devices.list_devices(device)
    default = len(commands) if available[0].type == "cpu" else len(available)
    slots = slots_on(device, min(len(commands), count or default))
    waiting, running = list(commands.values()), dict[int, subprocess.Popen[str]]()
    with stop_requested() as request, track("training", steps) as show:
        while running or (waiting and request.signal is None):
            for slot, place in enumerate(slots):
                if slot not in running and waiting and request.signal is None:
                    running[slot] = _start([*waiting.pop(0), "--device", place.device], place.threads)
            time.sleep(POLL_SECONDS)
            show(sum(map(_last_step, commands)))
            if request.signal is not None:
                _stop(running)
            for slot in [slot for slot, process in running.items() if process.poll() is not None]:
                process = running.pop(slot)
                message = process.communicate()[1].strip().rpartition("\n")[2]
                if process.returncode and request.signal is None:
                    _stop(running)
                    raise RuntimeError(message.removeprefix("isopix: "))
    if request.signal is not None:
        stopped = StopSignal(request.signal, at_once=False)
        stopped.args = ("stopped and saved; the same command resumes the demo",)
        raise stopped


def _start(words: Sequence[str], threads: int | None) -> "subprocess.Popen[str]":
    """Start a command in a process group of its own, so that Ctrl-C reaches this process only."""
    environment = {**os.environ, **({"OMP_NUM_THREADS": str(threads)} if threads else {})}
    return subprocess.Popen(
        [sys.executable, "-m", "isopix", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def _stop(running: Mapping[int, "subprocess.Popen[str]"]) -> None:
    """Ask commands to save and stop, and wait for them."""
    for process in running.values():
        process.terminate()
    for process in running.values():
        process.communicate()


def _last_step(run: Path) -> int:
    """Return the step of the last training record of a run; 0 if there is none yet."""
    log = run / "log.jsonl"
    if not log.is_file():
        return 0
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        lines = file.read().splitlines()[1:-1]
    return max(
        (json.loads(line)["step"] for line in lines if line.startswith(b'{"kind": "train"')), default=0
    )


def _plugin_options() -> list[str]:
    from isopix.core.registry import plugins

    return [word for each in plugins() for word in ("--plugin", str(each.path))]


def _few_labels(run: Path) -> list[int | str]:
    """Return those of FEW_LABELS for which every class has enough training images."""
    from isopix.data.dataset import load_dataset
    from isopix.runs.load import saved_recipe

    labels = load_dataset(saved_recipe(run).data).train.labels
    assert labels is not None, "probes have read them"
    fewest = int(labels.bincount().min())
    return [count for count in FEW_LABELS if count <= fewest]


def demo_folder(out: Path) -> Path:
    """Return the newest demo if it has no report yet and can be resumed, else the next number."""
    numbers = sorted(int(path.name) for path in out.glob("*") if path.name.isdigit())
    newest = out / str(numbers[-1] if numbers else 0)
    runs = [newest / name for name in RECIPES]
    resumable = all(_has_checkpoint(run) or not run.exists() for run in runs)
    if newest.exists() and resumable and not (newest / "report.html").exists():
        return newest
    return out / str(int(newest.name) + 1)


def _has_checkpoint(run: Path) -> bool:
    return any(run.glob("checkpoints/step-*"))
