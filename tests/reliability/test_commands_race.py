"""Two commands on one run folder at the same moment: one writer at a time, and nothing torn."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from isopix.storage.log import read_log
from tests.reliability.commands import Server, digests, strays

pytestmark = pytest.mark.slow  # the lock itself is contested each time in test_races.py

SMALL = ["depth=1", "width=16", "steps=12", "batch_size=4", "log_every=1", "checkpoint_every=3"]
SMALL += ["evaluate_every=6", "evaluate_images=8", "num_test_images=8", "data.limit=80"]
START = ["pretrain", "igpt.digits", *SMALL, "--out"]
# Each verb, and the exit codes of one that comes second: 2 if the folder is taken or in use.
VERBS = {
    "pretrain": (lambda run: [*START, run], {0, 2}),
    "resume": (lambda run: ["resume", run], {0, 2}),
    "probe": (lambda run: ["probe", run, "--limit", "60"], {0}),
    "sample": (lambda run: ["sample", run, "-n", "2"], {0}),
    "report": (lambda run: ["report", run], {0}),
    "evaluate": (lambda run: ["verify", run], {0, 1, 2}),
}


@pytest.fixture(scope="module")
def pair(command_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Two servers in one folder, in which a finished run is `whole` and one to resume is `stopped`."""
    folder = tmp_path_factory.mktemp("races")
    one = command_server.working_in(folder)
    assert one.run(*START, "whole") == 0, one.output.read_text()
    shutil.copytree(folder / "whole", folder / "stopped")
    shutil.rmtree(folder / "stopped/checkpoints/step-00000012")
    with Server(folder) as other:
        yield one, other


def race(pair: tuple[Server, Server], number: int, chance: random.Random) -> None:
    """Let two verbs run at once, and check what they leave."""
    one = pair[0]
    first = chance.choice([*VERBS])
    second = first if number % 2 else chance.choice([*VERBS])
    run = f"run-{number}"
    if "pretrain" not in (first, second):
        shutil.copytree(one.folder / "stopped", one.folder / run)
    commands = [VERBS[name][0](run) for name in (first, second)]
    for each, words in zip(pair, commands, strict=True):
        each.start(*words)
    codes = [each.read() for each in pair]
    case = f"{first}, {second}: exit {codes}; {one.output.read_text()[-400:]}"
    assert "Traceback" not in one.output.read_text(), case
    if {first, second} == {"pretrain"}:
        assert sorted(codes) == [0, 2], case
    elif "pretrain" not in (first, second):
        assert all(code in VERBS[name][1] for code, name in zip(codes, (first, second), strict=True)), case
    folder = one.folder / run
    if folder.exists():
        look(folder, one.folder / "whole", case)


def look(run: Path, whole: Path, case: str) -> None:
    """No line of the log is there twice, every file can be read, and the weights are those of one writer."""
    steps = [each["step"] for each in read_log(run / "log.jsonl") if each["kind"] == "train"]
    assert steps == sorted(set(steps)), case
    for path in run.rglob("*.json"):
        json.loads(path.read_text())
    for path in run.rglob("*.png"):
        Image.open(path).load()
    for path in run.glob("report.html"):
        assert path.read_text().rstrip().endswith("</html>"), case
    assert strays(run) == [], case
    last = {name: each for name, each in digests(run).items() if "step-00000012" in name}
    assert last.items() <= digests(whole).items(), case


@pytest.mark.timeout(1800)
def test_races_of_commands(pair: tuple[Server, Server]) -> None:
    chance = random.Random(2)
    for number in range(50):
        race(pair, number, chance)
