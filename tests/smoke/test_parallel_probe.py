"""`isopix probe` in two processes: one report, one message, and no process that is left."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.smoke.test_ranks import ENVIRONMENT, LIMIT, alone, command, ranks_of, run, wait_until

__all__ = ["alone"]

pytestmark = pytest.mark.integration
# What a plugin does in a rank, in place of reading features or of the fits.
BROKEN = """
import os, signal, time
from pathlib import Path

from isopix import parts
from isopix.probing.methods import RidgeProbe
import isopix.probing.features as extraction
import isopix.probing.baselines as probe

def fail(*given, **named):
    raise RuntimeError("no such batch")

WAITS = Path(__file__).with_name("fitting")

def wait(*given, **named):
    WAITS.touch()
    time.sleep(600)

def die_after(*given, **named):
    while not WAITS.exists():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)

@parts.register("broken")  # a plugin must register something
class Broken(RidgeProbe):
    pass

if os.environ.get("RANK") == "{rank}":
    {module}.{function} = {action}
"""
ELSE = """else:
    extraction.iter_features = {action}
"""
OWN = {"call": None}  # of the process that wrote it
OPTIONS = ("--method", "ridge", "--limit", "150")


def probe(run_folder: Path, plugin: Path) -> list[str]:
    return command("probe", str(run_folder), *OPTIONS, "--devices", "2", "--plugin", str(plugin))


def broken(folder: Path, rank: int, module: str, function: str, action: str) -> Path:
    path = folder / "broken.py"
    path.write_text(BROKEN.format(rank=rank, module=module, function=function, action=action))
    return path


def test_two_processes_print_and_save_one_report(alone: Path) -> None:
    expected_output = run("probe", *OPTIONS, str(alone)).output
    [record] = (alone / "probes").iterdir()
    expected = json.loads(record.read_text())
    record.unlink()
    found = run("probe", *OPTIONS, "--devices", "2", str(alone))
    assert (found.code, found.output) == (0, expected_output)
    [record] = (alone / "probes").iterdir()
    assert {**json.loads(record.read_text()), **OWN} == {**expected, **OWN}
    record.unlink()


@pytest.mark.parametrize(
    ("rank", "action", "others", "expected"),
    [
        (1, "fail", "", "isopix: rank 1: no such batch"),
        pytest.param(0, "fail", "", "isopix: rank 0: no such batch", marks=pytest.mark.slow),
        # The rank that is stopped after the death of another says nothing.
        (0, "wait", ELSE.format(action="die_after"), "isopix: rank 1 was ended by SIGKILL"),
    ],
)
def test_an_error_of_any_rank_ends_all_with_one_line(
    alone: Path, tmp_path: Path, rank: int, action: str, others: str, expected: str
) -> None:
    plugin = broken(tmp_path, rank, "extraction", "iter_features", action)
    plugin.write_text(plugin.read_text() + others)
    words = probe(alone, plugin)
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (1, "", [expected])
    assert not ranks_of(alone)


@pytest.mark.parametrize(
    ("number", "code", "expected"),
    [
        (signal.SIGINT, 130, "isopix: interrupted"),
        pytest.param(
            signal.SIGTERM,
            75,
            "isopix: stopped by SIGTERM; the same command starts again",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_stop_signal_ends_the_ranks_that_wait_for_the_fits(
    alone: Path, tmp_path: Path, number: int, code: int, expected: str
) -> None:
    plugin = broken(tmp_path, 0, "probe", "probe_with_baselines", "wait")
    with subprocess.Popen(
        probe(alone, plugin), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: process.poll() is not None or (tmp_path / "fitting").exists())
        os.kill(process.pid, number)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors.splitlines()) == (code, "", [expected])
    assert not ranks_of(alone)
