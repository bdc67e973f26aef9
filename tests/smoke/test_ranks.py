"""Several processes train what one does: under DDP and FSDP2, stopped, resumed and killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load

from isopix.storage.checkpoint import load_checkpoint

pytestmark = pytest.mark.integration

SETTINGS = ["igpt.digits", "data.source=digits", "batch_size=16", "precision=fp32", "steps=12", "depth=2"]
SETTINGS += ["width=32", "log_every=1", "evaluate_every=6", "evaluate_images=32", "num_test_images=32"]
SETTINGS += ["checkpoint_every=4"]
ROOT = Path(__file__).parents[2]
FOLDERS = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(FOLDERS), "OMP_NUM_THREADS": "1"}
LIMIT = 240  # seconds; a quiet machine takes 15


class Finished(NamedTuple):
    code: int
    output: str


def command(*words: str, torchrun: tuple[str, ...] = ()) -> list[str]:
    engine = ["-m", "torch.distributed.run", *torchrun] if torchrun else []
    return [sys.executable, "-P", *engine, "-m", "isopix", *words]


def started(*words: str, folder: Path | None = None) -> subprocess.Popen[str]:
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command(*words), env=ENVIRONMENT, text=True, cwd=folder, **pipes)


def run(*words: str, stop_at: int | None = None, by: int = signal.SIGTERM) -> Finished:
    """Run a command to its end; with `stop_at` send a signal once the run, its last word, has this step."""
    folder = Path(words[-1])
    with started(*words) as process:
        if stop_at is not None:
            wait_for(folder, stop_at, process)
            process.send_signal(by)
        output, _ = process.communicate(timeout=LIMIT)
    return Finished(process.returncode, output)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def wait_for(folder: Path, step: int, process: subprocess.Popen[str]) -> None:
    """Wait until a run has this step, or its process has ended."""
    wait_until(lambda: process.poll() is not None or last_step(folder) >= step)


def last_step(folder: Path) -> int:
    try:
        return int(json.loads((folder / "log.jsonl").read_text().splitlines()[-1])["step"])
    except (OSError, ValueError, IndexError):
        return -1


def losses(folder: Path) -> dict[tuple[str, int, str], float]:
    records = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return {
        (each["kind"], each["step"], each.get("split", "")): each["loss_nats"]
        for each in records
        if "loss_nats" in each
    }


def saved_tensors(checkpoint: Path, group: str) -> dict[str, Tensor]:
    """The tensors of a file, or, read by PyTorch, of the shards of several ranks."""
    file = checkpoint / f"{group}.safetensors"
    if file.exists():
        return dict(load_file(file))
    reader = HuggingFaceStorageReader(str(checkpoint / group))
    stored = reader.read_metadata().state_dict_metadata
    state = {name: torch.empty(each.size, dtype=each.properties.dtype) for name, each in stored.items()}
    with pytest.warns(UserWarning, match="assuming the intent is to load in a single process"):
        load(state, storage_reader=reader, no_dist=True)
    own = load_checkpoint(checkpoint, [group]).tensors[group]
    assert own.keys() == state.keys()
    assert all(torch.equal(own[name], each) for name, each in state.items())
    return state


def assert_same(own: Path, other: Path) -> None:
    """Same losses of each step, and weights and moments at the end; these have the scale of the gradients."""
    expected = losses(other)
    assert losses(own) == pytest.approx(expected, abs=2e-6)
    assert {step for kind, step, _ in expected if kind == "train"} == set(range(1, 13))
    for group in ("model", "optimizer"):
        last = "checkpoints/step-00000012"
        ours, theirs = (saved_tensors(folder / last, group) for folder in (own, other))
        assert ours.keys() == theirs.keys()
        for name, tensor in theirs.items():
            torch.testing.assert_close(ours[name], tensor, rtol=1e-3, atol=2e-5, msg=name)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one process."""
    out = tmp_path_factory.mktemp("alone") / "run"
    assert run("pretrain", *SETTINGS, "--out", str(out)).code == 0
    return out


def test_two_ranks_train_what_one_does_and_each_resumes_the_other(alone: Path, tmp_path: Path) -> None:
    """Under FSDP2, stopped by Ctrl-C; test_cluster_scripts.py shows the same of DDP and SIGTERM."""
    out = str(tmp_path / "run")
    words = ("pretrain", *SETTINGS, "parallel=fsdp", "data.store=encoded", "--devices=2")
    stopped = run(*words, "--out", out, stop_at=3, by=signal.SIGINT)
    assert stopped.code == 75, stopped.output
    step = last_step(Path(out))
    assert 3 <= step < 12
    assert f"stopped and saved at step {step}; resume with: isopix resume {out} --devices 2" in stopped.output
    assert stopped.output.count("stopping after this step") == 1  # by one rank
    resumed = run("resume", out, stop_at=7)
    assert resumed.code == 75, resumed.output
    finished = run("resume", "--devices", "2", out)
    assert finished.code == 0, finished.output
    assert finished.output.count(f"finished: {out}") == 1
    assert_same(Path(out), alone)
    assert len(list(Path(out).glob("checkpoints/step-00000012/*/*.safetensors"))) == 4
    assert [each.name for each in Path(out).parent.iterdir()] == ["run"]


@pytest.mark.slow
def test_muon_updates_sharded_matrices_as_whole_ones(tmp_path: Path) -> None:
    """Up to the roundings of bf16, in which matrices become orthogonal."""
    words = ("pretrain", *SETTINGS, "optimizer=muon", "checkpoint_every=12", "parallel=fsdp")
    for count in ("1", "2"):
        assert run(*words, "--devices", count, "--out", str(tmp_path / count)).code == 0
    assert losses(tmp_path / "2") == pytest.approx(losses(tmp_path / "1"), abs=2e-4)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--devices", "0"], "devices is 0; allowed: 1 or more"),
        (["--devices", "10000"], "devices is 10000; available with device auto: "),
        (["--devices", "2", "data.source=nowhere"], "no file or folder 'nowhere'"),
    ],
)
def test_an_error_of_all_ranks_is_said_once(tmp_path: Path, words: list[str], expected: str) -> None:
    found = run("pretrain", *SETTINGS, *words, "--out", str(tmp_path / "run"))
    assert (found.code, found.output.count(expected)) == (2, 1), found.output
    assert "Traceback" not in found.output
    assert not list(tmp_path.iterdir())


def ranks_of(folder: Path) -> dict[int, int]:
    """The processes that train in a folder, by rank."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        rank = re.search(rb"(?:^|\0)RANK=(\d+)\0", environment)
        if rank and str(folder).encode() in words:
            found[int(rank[1])] = int(process.name)
    return found


STARTING = """
import os, time
from pathlib import Path
import torch.distributed
from isopix.core.registry import NAMES

NAMES["recipe", "none"] = None  # a plugin must register something

def join(*given, real=torch.distributed.init_process_group, **named):
    Path(__file__).with_name("joining").touch()
    real(*given, **named)

torch.distributed.init_process_group = join
if os.environ.get("RANK") == "1":
    time.sleep(600)
"""


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, 75), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_signal_ends_ranks_that_wait_for_each_other(tmp_path: Path, number: int, expected: int) -> None:
    """In a folder with files whose names are those of modules."""
    (tmp_path / "plugin.py").write_text(STARTING)
    for name in ("json", "random", "isopix"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} is executed')")
    words = ("pretrain", *SETTINGS, "--devices", "2", "--plugin", "plugin.py", "--out", str(tmp_path / "run"))
    with started(*words, folder=tmp_path) as process:
        wait_until(lambda: process.poll() is not None or (tmp_path / "joining").exists())
        time.sleep(1)  # in which rank 0 begins to wait for rank 1
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == expected
    assert output.count("\n") <= 1, output
    assert not ranks_of(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["rank 0", "rank 1", "launcher"])
def test_a_process_that_is_killed_ends_all_and_nothing_is_lost(
    alone: Path, tmp_path: Path, killed: str
) -> None:
    out = tmp_path / "run"
    words = ("pretrain", *SETTINGS, "--devices", "2", "--out", str(out))
    with started(*words) as process:
        wait_for(out, 5, process)
        os.kill(process.pid if killed == "launcher" else ranks_of(out)[int(killed[-1])], signal.SIGKILL)
        output, _ = process.communicate(timeout=LIMIT)
    wait_until(lambda: not ranks_of(out))  # no orphans
    if killed != "launcher":
        assert process.returncode == 1
        assert output.count(f"isopix: {killed} was ended by SIGKILL") == 1
    assert run("resume", "--devices", "2", str(out)).code == 0
    assert_same(out, alone)


@pytest.mark.slow
def test_torchrun_restarts_from_the_last_checkpoint(alone: Path, tmp_path: Path) -> None:
    """A rank is killed five times, each time after a new step."""
    out = tmp_path / "run"
    words = ("pretrain", *SETTINGS, "checkpoint_every=1", "accumulate=2", "--out", str(out))
    torchrun = ("--nproc-per-node=2", "--max-restarts=5")
    with subprocess.Popen(command(*words, torchrun=torchrun), env=ENVIRONMENT) as process:
        for number in range(5):
            wait_for(out, 2 * number + 1, process)
            os.kill(ranks_of(out)[number % 2], signal.SIGKILL)
            wait_until(lambda: len(ranks_of(out)) < 2 or process.poll() is not None)
        assert process.wait(LIMIT) == 0
    assert_same(out, alone)


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_fine_tuning_selects_and_tests_the_same_weights(alone: Path, tmp_path: Path, parallel: str) -> None:
    """Early stopping, and the best weights, which only rank 0 has saved."""
    found = {}
    for count in (1, 2):
        out = tmp_path / str(count)
        words = "steps=12 batch_size=16 lr=0.003 precision=fp32 data.augment=none evaluate_every=4 patience=1"
        options = [*words.split(), f"parallel={parallel}", "--devices", str(count), "--out", str(out)]
        done = run("finetune", str(alone), *options)
        assert done.code == 0, done.output
        records = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        found[count] = [each for each in records if each.get("split") in ("validation", "test")]
    for one, two in zip(found[1], found[2], strict=True):
        assert (one["step"], one["split"]) == (two["step"], two["split"])
        for name in ("total_nats", "accuracy"):
            assert two[name] == pytest.approx(one[name], abs=1e-5)
