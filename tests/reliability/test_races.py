"""Many real processes want one run folder at the same moment."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isopix.storage.run_folder import RunFolder
from tests.run_folders import create_run

pytestmark = pytest.mark.integration

RACES = 50
RUNNERS = 3
HOLD = 0.02  # seconds that a winner stays inside


def lock(path: Path) -> None:
    """Hold the lock; FileExistsError if anyone else does."""
    with RunFolder(path).lock():
        (path / "inside").touch(exist_ok=False)
        time.sleep(HOLD)
        (path / "inside").unlink()


def run(contest: Callable[[Path], Any], folder: Path, barrier: Any, outcomes: Any) -> None:
    """Take part in all races."""
    for number in range(RACES):
        path = folder / str(number)
        barrier.wait()
        try:
            contest(path)
            outcomes.put((number, "won"))
        except ValueError as refusal:
            outcomes.put((number, "refused" if str(path) in str(refusal) else str(refusal)))
        except FileExistsError:
            outcomes.put((number, "double"))


def races(contest: Callable[[Path], Any], folder: Path) -> list[Counter[str]]:
    """The outcomes of each race."""
    context = multiprocessing.get_context("spawn")
    barrier, outcomes = context.Barrier(RUNNERS), context.Queue()
    for _ in range(RUNNERS):
        context.Process(target=run, args=(contest, folder, barrier, outcomes), daemon=True).start()
    found = [Counter[str]() for _ in range(RACES)]
    for _ in range(RACES * RUNNERS):
        number, outcome = outcomes.get(timeout=60)
        found[number][outcome] += 1
    return found


def test_of_several_creators_exactly_one_gets_the_folder_and_it_never_has_two_writers(tmp_path: Path) -> None:
    assert races(create_run, tmp_path) == [Counter(won=1, refused=RUNNERS - 1)] * RACES
    found = races(lock, tmp_path)
    assert all(each.keys() <= {"won", "refused"} and each["won"] >= 1 for each in found), found
    assert sum(each["refused"] for each in found) > RACES // 5
