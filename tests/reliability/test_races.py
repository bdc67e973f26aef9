"""Many real processes want one run folder at the same moment."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isopix.storage.run_folder import RunFolder
from tests.trained import create_run

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


def attempt(contest: Callable[[Path], Any], path: Path) -> str:
    """How it ends."""
    try:
        contest(path)
    except ValueError as refusal:
        return "refused" if str(path) in str(refusal) else str(refusal)
    except FileExistsError:
        return "double"
    return "won"


def take_part(folder: Path, barrier: Any, outcomes: Any) -> None:
    """Take part in all races."""
    for number in range(2 * RACES):
        contest = (create_run, lock)[number % 2]
        barrier.wait()
        outcomes.put((number, attempt(contest, folder / str(number // 2))))


def test_of_several_creators_exactly_one_gets_the_folder_and_it_never_has_two_writers(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, outcomes = context.Barrier(RUNNERS), context.Queue()
    for _ in range(RUNNERS):
        context.Process(target=take_part, args=(tmp_path, barrier, outcomes), daemon=True).start()
    found = [Counter[str]() for _ in range(2 * RACES)]
    for _ in range(2 * RACES * RUNNERS):
        number, outcome = outcomes.get(timeout=60)
        found[number][outcome] += 1
    created, locked = found[::2], found[1::2]
    assert created == [Counter(won=1, refused=RUNNERS - 1)] * RACES
    assert all(each.keys() <= {"won", "refused"} and each["won"] >= 1 for each in locked), locked
    assert sum(each["refused"] for each in locked) > RACES // 5
