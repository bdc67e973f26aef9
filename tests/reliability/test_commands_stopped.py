"""Kills and stop signals at random moments of real commands: the next one continues to the same weights."""

import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.reliability.commands import Server, command_server, digests, logged_step, newest_step, strays

__all__ = ["command_server"]
pytestmark = pytest.mark.integration

SMALL = ["depth=1", "width=16", "steps=16", "batch_size=4", "log_every=1", "checkpoint_every=1"]
SMALL += ["evaluate_every=8", "evaluate_images=8", "num_test_images=8", "data.limit=80"]
COMMANDS = {
    "autoregressive": ["pretrain", "igpt.digits", *SMALL],
    "masked": ["pretrain", "igpt.digits_bert", *SMALL],
    "convolutional": ["pretrain", "isotropic.translated_digits-conv-pix2vec-3", *SMALL],
    "finetune": ["finetune", "base", *SMALL[2:]],
    "lr=search": ["pretrain", "igpt.digits", "lr=search:0.003..0.001", *SMALL],
}
# Signals, and the exit codes after them: 130 is that of Ctrl-C before there is a run.
STOPS = {each: {75} for each in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)}
STOPS |= {signal.SIGKILL: {-signal.SIGKILL}, signal.SIGINT: {75, 130}}


@pytest.fixture(scope="module")
def one(command_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    found = command_server.working_in(tmp_path_factory.mktemp("killed"))
    assert found.run("pretrain", "igpt.digits", *SMALL, "--out", "base") == 0, found.output.read_text()
    return found


class Campaign:
    """One kind of command, stopped again and again."""

    def __init__(self, one: Server, kind: str, seed: int):
        self.one, self.kind, self.seed, self.chance = one, kind, seed, random.Random(seed)
        self.words, self.count = COMMANDS[kind], Counter[str]()
        self.number, self.reached = 0, dict[Path, int]()
        whole = f"{kind}-{seed}-whole"
        assert one.run(*self.words, "--out", whole) in self.ends, one.output.read_text()
        self.whole = digests(one.folder / whole)
        assert self.whole

    @property
    def ends(self) -> tuple[int, ...]:
        """The exit codes of a command that has ended; the short search finds no learning rate."""
        return (0, 1) if self.kind == "lr=search" else (0,)

    @property
    def out(self) -> Path:
        return self.one.folder / f"{self.kind}-{self.seed}-{self.number}"

    def command(self) -> list[str]:
        if (self.out / "recipe.json").exists() and self.chance.random() < 0.5:
            return ["resume", self.out.name]
        return [*self.words, "--out", self.out.name]

    def stop(self) -> None:
        """Start the command that continues the run, and stop it; a run that finishes first is compared.

        One in five is a new run, stopped before its first step or soon after.
        """
        early = self.chance.random() < 0.2
        if early and self.out.exists():
            self.finish()
        inside, left = self.chance.random() < 0.6, strays(self.one.folder)  # by kills before
        stop = self.kill_in_save if inside else self.stop_from_outside
        code, allowed = stop(early=early)
        if code in self.ends:
            self.finish(started=True)
            return
        output = self.one.output.read_text()
        assert code in allowed, output
        assert "Traceback" not in output
        assert code == -signal.SIGKILL or {*strays(self.one.folder)} <= {*left}
        self.count["stops"] += 1
        self.look()

    def kill_in_save(self, *, early: bool) -> tuple[int, set[int]]:
        """The command dies by itself in one of its first saves, or within 2 ms after."""
        touched, delay = self.chance.randint(1, 6 if early else 40), self.chance.choice([0, 0.001, 0.002])
        self.one.start(*self.command(), kill_in_save=(touched, delay))
        code = self.one.read()
        assert delay or code in self.ends or self.unfinished_saves()
        return code, {-signal.SIGKILL}

    def stop_from_outside(self, *, early: bool) -> tuple[int, set[int]]:
        """Send a signal at a random moment; return the exit code, and those that are right."""
        sent = self.chance.choice([*STOPS])
        pid = self.one.start(*self.command())
        time.sleep(self.chance.uniform(0.02, 0.1 if early else 0.8))
        with suppress(ProcessLookupError):
            os.kill(pid, sent)
        return self.one.read(), STOPS[sent]

    def unfinished_saves(self) -> list[Path]:
        hidden = self.out.parent.glob(f".tmp-{self.out.name}-*/checkpoints/.tmp-step-*")  # of a start
        return [*self.out.glob("**/checkpoints/.tmp-step-*"), *hidden]

    def look(self) -> None:
        """Whatever is there can go on, and has lost no step that was saved."""
        self.count["inside a save"] += bool(self.unfinished_saves())
        runs = [path.parent for path in self.out.glob("**/checkpoints")]
        self.count["before step 1"] += max(map(logged_step, runs), default=0) == 0
        if self.kind != "lr=search":
            assert not self.out.exists() or newest_step(self.out) >= 0, "a run folder that cannot be resumed"
        for run in runs:
            step = newest_step(run)
            assert step >= max(self.reached.get(run, -1), logged_step(run) - 1), run
            self.reached[run] = step

    def finish(self, *, started: bool = False) -> None:
        """Let the run end; it has the weights of one that was never killed."""
        code = 0 if started else self.one.run(*self.command())
        assert code in self.ends, self.one.output.read_text()
        assert digests(self.out) == self.whole
        assert strays(self.out) == []
        assert [path.name for path in self.one.folder.glob(f".tmp-{self.out.name}-*")] == []
        self.count["finished"] += 1
        self.number += 1


def run_campaign(one: Server, kind: str, stops: int, seed: int) -> Counter[str]:
    """Stop a command so many times, a quarter of them inside a save, which depends on the machine's speed."""
    campaign = Campaign(one, kind, seed)
    while campaign.count["stops"] < stops or campaign.count["inside a save"] < stops // 4:
        campaign.stop()
    campaign.finish()
    return campaign.count


@pytest.mark.parametrize("kind", ["autoregressive", "finetune"])
def test_a_stopped_command_goes_on(one: Server, kind: str) -> None:
    assert run_campaign(one, kind, stops=12, seed=1)["inside a save"] >= 3


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_stops(one: Server) -> None:
    total = Counter[str]()
    for kind in COMMANDS:
        total += run_campaign(one, kind, stops=40, seed=2)
    assert total["inside a save"] >= 80
    assert total["before step 1"] >= 40
