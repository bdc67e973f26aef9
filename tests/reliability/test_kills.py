"""Training under real kills and real signals; `-s` shows what was counted."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isopix.storage import checkpoint, log
from tests.run_folders import create_run

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent
ASKED_TO_STOP = 75
MANY = 10**9  # steps that no run reaches


class Server:
    """`saver.py`, warm."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "saver.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, run, steps):
        self.process.stdin.write(f"train\t{run.path}\t{steps}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def wait_until_ready(self):
        assert self.process.stdout.readline() == "ready\n"

    def finish(self):
        answer = self.process.stdout.readline()
        return self.finish() if answer == "ready\n" else int(answer)

    def train(self, run, steps):
        self.start(run, steps)
        return self.finish()


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.process.stdin.close()
    server.process.wait(timeout=30)
    server.process.stdout.close()


def say(line):
    sys.stdout.write(f"{line}\n")


def newest_step(run):
    found = checkpoint.load_latest(run.checkpoints)
    assert found.damaged == []
    return found.checkpoint.records["state"]["step"] if found.checkpoint else 0


def strays(folder):
    return [path.name for path in folder.rglob(".tmp-*")]


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def campaign(server, folder, *, at_least, inside_a_save):
    """Train, killing at least so many times, until so many kills have hit inside a save."""
    chance = random.Random(0)
    run = create_run(folder / "killed")
    reached, kills, inside = 0, 0, 0
    while kills < at_least or inside < inside_a_save:
        kills += 1
        pid = server.start(run, MANY)
        if kills % 4:  # a quarter of the kills may also hit while it takes up the run
            server.wait_until_ready()
        time.sleep(chance.uniform(0, 0.1))
        os.kill(pid, signal.SIGKILL)
        assert server.finish() == -signal.SIGKILL
        inside += bool(strays(run.checkpoints))
        logged = (
            max((record["step"] for record in log.read_log(run.log)), default=0) if run.log.exists() else 0
        )
        step = newest_step(run)
        assert step >= max(reached, logged - 1), "a kill cost more than the step it fell into"
        reached = step
    assert server.train(run, reached + 5) == 0
    untouched = create_run(folder / "untouched")
    assert server.train(untouched, reached + 5) == 0
    assert strays(folder) == []
    last = checkpoint.step_folder(Path(), reached + 5)
    assert digests(run.checkpoints / last) == digests(untouched.checkpoints / last)
    assert run.log.read_bytes() == untouched.log.read_bytes()
    say(f"{kills} kills, {inside} inside a save, 0 checkpoints lost; {reached} steps")


def test_no_kill_costs_more_than_one_save(server, tmp_path):
    campaign(server, tmp_path, at_least=20, inside_a_save=5)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_kill_of_very_many_costs_more_than_one_save(server, tmp_path):
    campaign(server, tmp_path, at_least=200, inside_a_save=80)


def test_a_signal_ends_a_run_after_its_step_and_loses_nothing(server, tmp_path):
    chance = random.Random(1)
    run = create_run(tmp_path / "run")
    server.train(run, 1)
    slowest = 0.0
    for asking in [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT] * 5:
        pid = server.start(run, MANY)
        wait_for_step(run, newest_step(run) + 1)
        time.sleep(chance.uniform(0, 0.05))
        asked = time.perf_counter()
        os.kill(pid, asking)
        assert server.finish() == ASKED_TO_STOP
        slowest = max(slowest, time.perf_counter() - asked)
        assert newest_step(run) == log.read_log(run.log)[-1]["step"]
    assert strays(tmp_path) == []
    assert [record["step"] for record in log.read_log(run.log)] == list(range(1, newest_step(run) + 1))
    assert slowest < 2
    say(f"15 signals, all saved; the slowest took {slowest:.3f} s")


def wait_for_step(run, step):
    deadline = time.monotonic() + 20
    while log.read_log(run.log)[-1]["step"] < step:
        assert time.monotonic() < deadline
        time.sleep(0.002)
