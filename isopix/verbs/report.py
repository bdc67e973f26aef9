"""`isopix report`, `demo` and `studio`: what runs have learned, on a page."""

import importlib.util
import inspect
import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Annotated, NoReturn, get_args

from isopix.core.choices import Count as Positive
from isopix.core.choices import Range
from isopix.core.progress import announce, track
from isopix.core.verb import VERBS, verb
from isopix.reporting.results import ReportResult
from isopix.storage.atomic import scratch_folder
from isopix.storage.result import Result
from isopix.verbs.options import DeviceLike, OtherImages, PathLike, Seed, Settings
from isopix.verbs.pretrain import same_command

Runs = Annotated[PathLike, "Run folders or folders of runs, in the order of the report."]
Out = Annotated[
    Path | None, "File to write. Default: report.html in the run folder, or next to the first run of several."
]


@verb()
def report(*runs: Runs, out: Out = None) -> ReportResult:
    """Write a self-contained HTML report about one or more runs, and print a table of runs and baselines.

    Example: isopix report runs/photos
    """
    from isopix.pretrained.run import require_writable, run_folder
    from isopix.reporting.page import read_runs, report_page
    from isopix.reporting.summary import incomparable, summary_rows
    from isopix.storage.atomic import replace_file
    from isopix.storage.run_folder import runs_in

    if not runs:
        raise ValueError("report needs at least one run, as in: isopix report runs/photos")
    folders = [run_folder(each) for run in map(Path, runs) for each in runs_in(run) or [run]]
    default = folders[0].report if len(folders) == 1 else folders[0].path.parent / "report.html"
    path = out or default
    if path.is_dir():
        raise ValueError(f"out {path} is a folder; a report is one file, such as {path / 'report.html'}")
    require_writable(path.parent)
    records = read_runs(folders, result_kinds())
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, report_page(records).html().encode())
    different = incomparable(records)
    result = ReportResult(
        runs=tuple(str(each.path) for each in folders),
        summary=tuple(summary_rows(records)),
        warnings=(f"these runs cannot be compared: {different}",) if different else (),
    )
    return result.saved(path)


def result_kinds() -> dict[str, tuple[type[Result], ...]]:
    """Return the classes of the results of each verb by its name, which results are saved with."""
    found = {each.name: inspect.signature(each.function).return_annotation for each in VERBS.values()}
    return {name: get_args(kind) or (kind,) for name, kind in found.items() if kind is not NoReturn}


RECIPES = {
    "ar": "igpt.translated_digits",
    "bert": "igpt.translated_digits_bert",
    "conv": "isotropic.translated_digits-conv-pix2vec-3",
}
FEW_LABELS = (5, 20)  # of each class
PROBE_LIMIT = 4000  # images of each split that probes read: all for validation and test
TRAIN_STEP = re.compile(rb'"kind": "train", "step": (\d+)')

DemoOut = Annotated[Path, "Folder of the runs and the report."]
Jobs = Annotated[
    Positive | None, "Number of networks trained in parallel. Default: all on a CPU, one per GPU."
]


@verb()
def demo(
    *settings: Settings,
    out: DemoOut = Path("runs/demo"),
    seed: Seed = 0,
    jobs: Jobs = None,
    device: DeviceLike = "auto",
) -> ReportResult:
    """Pre-train three small networks on translated digits, probe them, sample, and write a report.

    They are an autoregressive and a masked Image GPT, and a masked convolutional network. The same command
    resumes an interrupted demo, and measures a finished one again.

    Example: isopix demo
    """
    from isopix.core.registry import plugins
    from isopix.core.signals import with_resume_hint
    from isopix.recipes.registry import resolve
    from isopix.verbs.probe import probe
    from isopix.verbs.sample import complete, reconstruct, sample

    announce(f"demo in {out}: about five minutes on two CPU cores with the default settings")
    steps = sum(resolve(each, settings=settings).recipe.train.steps for each in RECIPES.values())
    own = [word for each in plugins() for word in ("--plugin", str(each.path))]
    commands = {
        out / name: ["pretrain", recipe, *settings, "--out", str(out / name), "--seed", str(seed), *own]
        for name, recipe in RECIPES.items()
    }
    with with_resume_hint(out, same_command()):
        train_side_by_side(commands, steps, str(device), jobs)
        for name in RECIPES:
            announce(str(probe(out / name, limit=PROBE_LIMIT, seed=seed, device=device)))
        sample(out / "ar", count=40, seed=seed, device=device)
        complete(out / "ar", count=8, each=3, seed=seed, device=device)
        for name in ("bert", "conv"):
            reconstruct(out / name, count=8, seed=seed, device=device)
        if labels := _few_labels(out / "ar"):
            announce(str(probe(out / "ar", labels=labels, subsets=3, device=device)))
    return report(*(out / name for name in RECIPES), out=out / "report.html")


def train_side_by_side(
    commands: Mapping[Path, Sequence[str]], steps: int, device: str, count: int | None = None
) -> None:
    """Run commands that train runs, `count` at a time, by default all on a CPU and one per GPU."""
    from isopix.core.device import list_devices
    from isopix.core.signals import Interrupted, stop_requested
    from isopix.studies.executor import run_all, slots_on

    available = list_devices(device)
    default = len(commands) if available[0].type == "cpu" else len(available)
    slots = slots_on(device, min(len(commands), count or default))
    errors: list[str] = []  # of commands that ended; empty if all is well
    with stop_requested() as request, track("training", steps) as show:

        def stop() -> bool:
            show(sum(map(_last_step, commands)))
            return any(errors) or request.signal is not None

        run_all(
            list(commands.values()),
            lambda words, slot: _Command(words, *slots[slot]),
            len(slots),
            ended=lambda words, error: errors.append(error),
            stop=stop,
        )
    if any(errors):
        raise RuntimeError(next(filter(None, errors)))
    if request.signal is not None:
        text = "stopped and saved; the same command resumes the demo"
        raise Interrupted(text, ReportResult(runs=(), summary=(), warnings=(text,)))


class _Command:
    """A command, in a process group of its own, so that Ctrl-C reaches this process only."""

    def __init__(self, words: Sequence[str], device: str, threads: int | None):
        command = [sys.executable, "-m", "isopix", *words, "--device", device]
        env = os.environ | {"OMP_NUM_THREADS": str(threads)}
        self.process = Popen(command, stdout=DEVNULL, stderr=PIPE, text=True, env=env, start_new_session=True)
        self.stop, self.kill = self.process.terminate, self.process.kill

    def poll(self) -> str | None:
        if (code := self.process.poll()) is None:
            return None
        message = self.process.communicate()[1].strip().rpartition("\n")[2]
        return (message.removeprefix("isopix: ") or f"ended with exit code {code}") if code else ""


def _last_step(run: Path) -> int:
    log = run / "log.jsonl"
    steps = TRAIN_STEP.findall(log.read_bytes()) if log.is_file() else []
    return int(steps[-1]) if steps else 0


def _few_labels(run: Path) -> list[int | str]:
    from isopix.data.load import load_dataset
    from isopix.runs.load import saved_recipe

    labels = load_dataset(saved_recipe(run).data).labeled("probe").train.labels
    assert labels is not None, "probes have read them"
    fewest = int(labels.bincount().min())
    return [count for count in FEW_LABELS if count <= fewest]


HOST = "127.0.0.1"
Opened = Annotated[PathLike, "One or two run folders, or models from `isopix list models`."]
Port = Annotated[
    Annotated[int, Range(low=1, high=65535)] | None, "Port of the page. Default: the next free one from 7860."
]
Browser = Annotated[bool, "Open the page in a browser."]

logger = logging.getLogger("isopix")


@verb(command="studio")
def open_studio(
    *runs: Opened,
    data: OtherImages = None,
    port: Port = None,
    browser: Browser = True,
    device: DeviceLike = "auto",
) -> NoReturn:
    """Serve a local web page to complete, compare and inspect images with one or two runs.

    Choose an image of the dataset or drop a file, paint over a part, and watch the completions. Other tabs
    show nearest images, attention maps and surprise maps. Ctrl-C stops it. Needs: pip install -e '.[studio]'.

    Example: isopix studio runs/photos
    """
    if not 1 <= len(runs) <= 2:
        raise ValueError(f"the studio shows one or two runs; got {len(runs)}")
    if importlib.util.find_spec("gradio") is None:
        raise ValueError("the studio needs gradio: pip install -e '.[studio]'")
    if port is not None:
        _require_free(port)
    from isopix.studio.run import open_runs

    opened = open_runs(runs, data=data, device=device)
    with scratch_folder("studio") as uploads:
        # Gradio reads them when it is imported: no analytics, and uploaded files in a folder of this call.
        os.environ.update(GRADIO_ANALYTICS_ENABLED="False", GRADIO_TEMP_DIR=uploads)
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        from isopix.studio.page import build_page, start_page, stop_page

        page = build_page(opened)
        try:
            url = start_page(page, host=HOST, port=port, browser=browser, uploads=Path(uploads))
            logger.info("studio: %s  (Ctrl-C stops it)", url)
            while True:
                threading.Event().wait()
        finally:
            stop_page(page)


def _require_free(port: int) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OSError(f"port {port}: {reason}; choose another, or none for the next free one") from None
