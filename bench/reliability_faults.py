"""The faults of the reliability benchmark, each done to one trainer: kills, damage, full disks and stops."""

import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from reliability_process import ENDED, MARKS, Ended, Process
from reliability_trainers import STEPS, Trainer, delete
from torch import Tensor

STOPPED = STEPS - 3  # of the run that is damaged: the newest checkpoint, with one before it
Damage = Callable[[Path, random.Random], None]


class Bench:
    """One trainer in a folder, with a run that nothing has happened to and one that is to be damaged."""

    def __init__(self, trainer: Trainer, folder: Path, seed: int):
        self.trainer, self.folder, self.chance = trainer, folder, random.Random(seed)
        folder.mkdir(parents=True)
        self.whole = self.finish(folder / "whole")
        self.saving_seconds = MARKS.saving_seconds / MARKS.saves
        self.base = folder / "base"
        assert self.start(self.base, stop_after=STOPPED).wait().code == ENDED
        copy = self.copy()
        ended = self.start(copy).wait()
        assert ended.code == 0, ended.output
        self.control, self.quiet_output = self.weights(copy), ended.output
        shutil.rmtree(copy)

    def start(self, out: Path, **options: int) -> Process:
        return Process(partial(self.trainer.main, out), **options)

    def copy(self) -> Path:
        out = self.folder / "copy"
        return Path(shutil.copytree(self.base, out, copy_function=shutil.copy2))

    def finish(self, out: Path) -> dict[str, Tensor]:
        ended = self.start(out).wait()
        assert ended.code == 0, ended.output
        return self.weights(out)

    def weights(self, out: Path) -> dict[str, Tensor]:
        newest = self.trainer.newest(out)
        assert newest is not None
        return self.trainer.weights(newest)

    def newest_step(self, out: Path) -> int | None:
        """Return the step of the newest checkpoint, whole or not, if its name has it."""
        newest = self.trainer.newest(out)
        return None if newest is None else self.trainer.step_of(newest)

    def mentions(self, ended: Ended, names: Sequence[str]) -> bool:
        """Return whether the output names a file or checkpoint, which it does not without a fault."""
        return any(name in ended.output and name not in self.quiet_output for name in names)


def equal(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    """Return whether all weights are equal, bit for bit."""
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


class Kills:
    """`kill -9` again and again; each next start continues, or its failure is counted."""

    def __init__(self, bench: Bench):
        self.bench, self.count = bench, Counter[str]()
        self.number, self.reached, self.lost = 0, 0, 0

    @property
    def out(self) -> Path:
        return self.bench.folder / f"killed-{self.number}"

    def run(self, kills: int) -> dict[str, Any]:
        """Kill that many times, let the last run finish, and return the counts."""
        while self.count["kills"] < kills:
            self.live(kill=True)
        number = self.number
        while self.number == number:
            self.live(kill=False)
        names = ["kills", "inside_a_save", "all_progress_lost", "went_on_from_an_older_checkpoint"]
        names += ["ended_until_deleted_by_hand", "finished_runs", "finished_equal_to_uninterrupted"]
        return {name: self.count[name] for name in names} | {"steps_lost_beyond_interval": self.lost}

    def live(self, *, kill: bool) -> None:
        newest = self.bench.newest_step(self.out)
        had_progress = self.reached > 1  # the checkpoint of the step before is complete
        process = self.bench.start(self.out)
        killed = kill and not self.wait_for_the_moment(process)
        saving = MARKS.is_saving
        ended = process.kill() if killed else process.wait()
        killed = killed and ended.code == -9
        self.count["kills"] += killed
        self.count["inside_a_save"] += killed and saving
        if MARKS.loaded >= 0:
            self.went_on(newest, had_progress)
        if not killed:
            self.ended(ended)

    def wait_for_the_moment(self, process: Process) -> bool:
        """Wait for a random moment, of which more than half are inside a save; True if the process ended."""
        chance, bench = self.bench.chance, self.bench
        if chance.random() < 0.75:
            saves = chance.randrange(6)
            if process.watch(lambda: MARKS.saves >= saves and bool(MARKS.is_saving), seconds=60):
                return True
            return process.watch(lambda: False, chance.uniform(0, bench.saving_seconds))
        return process.watch(lambda: False, chance.uniform(0, 20 * bench.saving_seconds))

    def went_on(self, newest: int | None, had_progress: bool) -> None:
        self.lost += max(0, self.reached - MARKS.loaded - 1)
        self.count["all_progress_lost"] += had_progress and MARKS.loaded == 0
        self.count["went_on_from_an_older_checkpoint"] += newest is not None and MARKS.loaded < newest
        self.reached = max(MARKS.loaded, MARKS.step)

    def ended(self, ended: Ended) -> None:
        """Compare a finished run, or help one that cannot go on as a user must."""
        if ended.code == 0:
            same = equal(self.bench.weights(self.out), self.bench.whole)
            self.count["finished_runs"] += 1
            self.count["finished_equal_to_uninterrupted"] += same
            self.number, self.reached = self.number + 1, 0
            return
        say(self.bench, "start after a kill", failure(ended), ended)
        self.count["ended_until_deleted_by_hand"] += 1
        newest = self.bench.trainer.newest(self.out)
        delete(self.out if newest is None else newest)


def flip_anywhere(files: list[Path], number: int) -> Path:
    """Return the file of a random byte of all: the more bytes, the likelier."""
    return random.Random(number).choices(files, [path.stat().st_size for path in files])[0]


def each_in_turn(files: list[Path], number: int) -> Path:
    return files[number % len(files)]


def flip_a_bit(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def truncate(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size))


def damage_checkpoints(
    bench: Bench, count: int, pick: Callable[[list[Path], int], Path], damage: Damage
) -> dict[str, Any]:
    """Damage one file of the newest checkpoint, resume, and count what happened."""
    total = Counter[str]()
    for number in range(count):
        out = bench.copy()
        newest = bench.trainer.newest(out)
        assert newest is not None
        path = pick(bench.trainer.files(newest), number)
        damage(path, bench.chance)
        outcome, ended = resume_damaged(bench, out, newest, path)
        say(bench, f"{damage.__name__} {path.name}", outcome, ended)
        total[outcome] += 1
        shutil.rmtree(out)
    return {"n": count, **total}


def resume_damaged(bench: Bench, out: Path, newest: Path, path: Path) -> tuple[str, Ended]:
    """Resume from a damaged checkpoint; return what that comes to."""
    step = bench.trainer.step_of(newest)
    ended = bench.start(out).wait()
    if ended.code != 0:
        return failure(ended), ended
    try:
        same = equal(bench.weights(out), bench.control)
    except Exception:  # whatever a peer has written
        same = False
    if bench.mentions(ended, [newest.name, path.name]):
        return "noticed_and_went_on" if same else "noticed_but_other_weights", ended
    older = step is not None and 0 <= MARKS.loaded < step
    same_weights = "older_checkpoint_without_a_word" if older else "no_effect"
    return same_weights if same else "other_weights", ended


def say(bench: Bench, fault: str, outcome: str, ended: Ended) -> None:
    """Write a line about a fault to standard error, with the last line of the process."""
    last = ended.output.strip().splitlines()[-1:] or [""]
    sys.stderr.write(f"{bench.folder.name}: {fault}: {outcome}: {last[0][-200:]}\n")


def failure(ended: Ended) -> str:
    if not isinstance(ended.code, int):
        return "hung"
    if ended.code < 0:
        return "killed_by_a_signal"
    return "ended_with_a_traceback" if "Traceback" in ended.output else "ended_with_a_message"


def fill_disk(bench: Bench, count: int) -> dict[str, Any]:
    """Save with files that may not grow beyond a random size, then resume with enough space."""
    total = Counter[str]()
    newest = bench.trainer.newest(bench.base)
    assert newest is not None
    largest = max(path.stat().st_size for path in bench.trainer.files(newest))
    for _ in range(count):
        out = bench.copy()
        before, saved = sizes(out), bench.trainer.files(out / newest.relative_to(bench.base))
        ended = bench.start(out, limit=bench.chance.randrange(1, largest)).wait()
        outcome = "went_on" if ended.code == 0 else failure(ended)
        say(bench, "full disk", outcome, ended)
        total[f"full: {outcome}"] += 1
        after = sizes(out)
        torn = {path for path in saved if after.get(path, 0) < before[path]}
        left = (after.keys() - before.keys()) | torn
        total["left_partial_files"] += bool(left)
        outcome = resume_after_full_disk(bench, out)
        say(bench, "resume after the full disk", outcome, ended)
        total[f"resumed: {outcome}"] += 1
        shutil.rmtree(out)
    return {"n": count, **total}


def sizes(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in out.rglob("*") if path.is_file()}


def resume_after_full_disk(bench: Bench, out: Path) -> str:
    """Return whether a resume continues by itself, after the newest checkpoint is deleted by hand, or not."""
    if bench.start(out).wait().code == 0:
        return "same_weights" if equal(bench.weights(out), bench.control) else "other_weights"
    with suppress(FileNotFoundError):
        delete(bench.trainer.newest(out) or out)
    if bench.trainer.newest(out) is None or bench.start(out).wait().code != 0:
        return "all_progress_lost"
    same = equal(bench.weights(out), bench.control)
    return "same_weights_after_deletion_by_hand" if same else "other_weights_after_deletion_by_hand"


def stop_and_resume(bench: Bench, count: int) -> dict[str, Any]:
    """End the process after the checkpoint of a random step, and resume it."""
    same = 0
    stops = sorted(bench.chance.sample(range(1, STEPS), count))
    for step in stops:
        out = bench.folder / "stopped"
        assert bench.start(out, stop_after=step).wait().code == ENDED
        same += equal(bench.finish(out), bench.whole)
        shutil.rmtree(out)
    return {"n": count, "equal_to_uninterrupted": same, "stops": stops}
