"""Stop signals at random moments of real commands: saved, exit code 75, and the next command continues."""

import random
import signal
import sys
import time
from collections import Counter

import pytest

from tests.reliability.commands import Server, digests, newest_step, strays

pytestmark = pytest.mark.integration
WORDS = ["igpt.digits", "depth=1", "width=16", "steps=300", "batch_size=4", "log_every=1", "data.limit=80"]
WORDS += ["evaluate_every=20", "evaluate_images=8", "num_test_images=8", "checkpoint_every=50"]
SIGNALS = [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT]


@pytest.fixture(scope="module")
def one(command_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    found = command_server.working_in(tmp_path_factory.mktemp("signalled"))
    assert found.run("pretrain", *WORDS, "--out", "whole") == 0, found.output.read_text()
    return found


def check_one(one: Server, number: int, chance: random.Random) -> tuple[str, int, float]:
    """Signal a command, once or twice, and let the next one finish; return the signal, code and seconds."""
    run, sent = one.folder / f"run-{number}", chance.choice(SIGNALS)
    pid = one.start("pretrain", *WORDS, "--out", run.name)
    time.sleep(chance.uniform(0.02, 0.8) if number % 2 else chance.uniform(0.4, 1.6))
    asked = time.monotonic()
    one.send(pid, sent)
    code = one.read()
    seconds = time.monotonic() - asked
    output = one.output.read_text()
    assert "Traceback" not in output, output[-2000:]
    allowed = {0, 75} | ({128 + sent} if sent is signal.SIGINT else set())  # Ctrl-C before there is a run
    assert code in allowed, (code, output[-500:])
    assert not run.exists() or newest_step(run) >= 0
    assert strays(one.folder) == []
    if code != 0:
        words = ["resume", run.name] if run.exists() else ["pretrain", *WORDS, "--out", run.name]
        assert one.run(*words) == 0, one.output.read_text()[-500:]
    kept = {name: each for name, each in digests(run).items() if "step-00000300" in name}
    assert kept
    assert kept.items() <= digests(one.folder / "whole").items()
    return sent.name, code, seconds


def run_all(one: Server, count: int, seed: int) -> None:
    chance, counted, slowest = random.Random(seed), Counter[str](), 0.0
    for number in range(count):
        name, code, seconds = check_one(one, seed * 1000 + number, chance)
        counted[f"{name}: exit {code}"] += 1
        slowest = max(slowest, seconds)
    sys.stdout.write(f"{dict(sorted(counted.items()))}; the slowest ended after {slowest:.2f} s\n")


def test_a_signal_at_any_moment(one: Server) -> None:
    run_all(one, 4, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_signals_at_a_hundred_moments(one: Server) -> None:
    run_all(one, 100, seed=2)
