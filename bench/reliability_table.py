"""The table of `bench/results/reliability.json`, which `bench/reliability.py` writes."""

from collections.abc import Callable
from typing import Any

from cells import read, table, threads

Cell = Callable[[dict[str, Any]], str]
Rows = list[tuple[str, Cell]]


def reliability() -> str:
    """Return one column per trainer, with a group of rows per fault."""
    found = read("reliability.json")
    trainers = list(found["trainers"].values())
    rows = [(title, *map(cell, trainers)) for title, cell in ROWS]
    sizes = ", ".join(f"{sum(each['checkpoint_bytes'].values()) / 1e6:.1f} MB" for each in trainers)
    settings = found["settings"]
    return table(("", *(each["trainer"] for each in trainers)), rows) + (
        f"\n{settings['steps']} steps of {settings['batch_size']} images, a checkpoint after every step "
        f"({sizes}). The damaged checkpoint is of step {settings['damaged_at_step']}. "
        f"{found['device']}, {threads(found)}, torch {found['torch']}, isopix {found['isopix']}.\n"
    )


def count(fault: str, *keys: str) -> Cell:
    return lambda trainer: str(sum(trainer[fault].get(key, 0) for key in keys))


def out_of(fault: str, key: str, total: str) -> Cell:
    """Return a cell with a count out of another: `4 of 5`."""
    return lambda trainer: f"{trainer[fault].get(key, 0)} of {trainer[fault][total]}"


def damage(title: str, fault: str) -> Rows:
    failures = ("ended_with_a_message", "ended_with_a_traceback", "killed_by_a_signal", "hung")
    return [
        (f"**{title}**", count(fault, "n")),
        ("a message, continues to the same weights", count(fault, "noticed_and_went_on")),
        ("ends with an error", count(fault, *failures)),
        ("no message, continues to other weights", count(fault, "other_weights")),
        ("no message, no effect", count(fault, "no_effect", "older_checkpoint_without_a_word")),
    ]


ROWS: Rows = [
    ("**`kill -9` at random moments**", count("kills", "kills")),
    ("inside a save", count("kills", "inside_a_save")),
    ("the next start fails until a checkpoint is deleted", count("kills", "ended_until_deleted_by_hand")),
    ("all progress lost", count("kills", "all_progress_lost")),
    ("steps lost beyond the save interval, in total", count("kills", "steps_lost_beyond_interval")),
    (
        "runs that equal one without kills, bit for bit",
        out_of("kills", "finished_equal_to_uninterrupted", "finished_runs"),
    ),
    *damage("one bit flipped, anywhere in the checkpoint", "bit_flips_anywhere"),
    *damage("one file truncated, each in turn", "truncations"),
    ("**disk full during a save**", count("full_disk", "n")),
    ("one-line message", count("full_disk", "full: ended_with_a_message")),
    ("partial files stay", count("full_disk", "left_partial_files")),
    ("resumes when there is space", count("full_disk", "resumed: same_weights")),
    (
        "resumes after a checkpoint is deleted",
        count("full_disk", "resumed: same_weights_after_deletion_by_hand"),
    ),
    ("all progress lost", count("full_disk", "resumed: all_progress_lost")),
    ("**stopped after a random step and resumed**", count("stops", "n")),
    ("equal to a run without a stop, bit for bit", count("stops", "equal_to_uninterrupted")),
]
