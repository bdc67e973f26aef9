"""What is wrong with the log of a run that is resumed: the checkpoints are whole, and training continues."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from isopix.storage.log import read_valid_records
from isopix.train.config import TrainConfig

MAX_LISTED = 5  # ranges in a note


def log_notes(log: Path, config: TrainConfig, step: int) -> list[str]:
    """Return notes on lines of the log that cannot be read, and on records that are missing up to `step`."""
    if not log.exists():
        return [f"{log.name} was missing: records before step {step} are lost"] if step else []
    records, bad = read_valid_records(log)
    notes = [f"{log.name}: {_lines(bad)} skipped, no valid record"] if bad else []
    trained = {each["step"] for each in records if each["kind"] in ("train", "note")}  # of a skipped step
    lost = [each for each in range(config.log_every, step + 1, config.log_every) if each not in trained]
    if lost:
        notes.append(f"{log.name} has no records of training at {_steps(lost, config.log_every)}")
    validated = {each["step"] for each in records if each.get("split") == "validation"}
    lost = [each for each in range(0, step + 1, config.evaluate_every) if each not in validated]
    if lost and validated:
        notes.append(f"{log.name} has no records of validation at {_steps(lost, config.evaluate_every)}")
    return notes


def _lines(numbers: Sequence[int]) -> str:
    return f"line{'s' * (len(numbers) > 1)} {_ranges(numbers, 1)}"


def _steps(steps: Sequence[int], every: int) -> str:
    return f"step{'s' * (len(steps) > 1)} {_ranges(steps, every)}"


def _ranges(numbers: Sequence[int], every: int) -> str:
    """Return numbers in order as `10, 30 to 50`, those at a distance of `every` as one range."""
    found = [
        list(_numbers(each)) for _, each in groupby(enumerate(numbers), lambda it: it[1] - every * it[0])
    ]
    texts = [f"{each[0]}" if len(each) == 1 else f"{each[0]} to {each[-1]}" for each in found]
    more = f" and {len(texts) - MAX_LISTED} more ranges" if len(texts) > MAX_LISTED else ""
    return ", ".join(texts[:MAX_LISTED]) + more


def _numbers(pairs: Iterable[tuple[int, int]]) -> Iterable[int]:
    return (number for _, number in pairs)
