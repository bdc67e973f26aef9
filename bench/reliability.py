"""Kills, damaged checkpoints, full disks and stops: isopix, Hugging Face's Trainer and plain `torch.save`.

    python bench/reliability.py --out /tmp/reliability > bench/results/reliability.json    # 12 minutes
    python bench/reliability.py --out /tmp/reliability --quick

The three train a network of the same size on the same images, save after every step, and restart in a
process forked from a warm one, so that kills hit the training and not its imports. A restart does what the
documentation of each says. Prints JSON.
"""

import contextlib
import json
import shutil
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

import torch
from cells import print_result
from reliability_faults import (
    STOPPED,
    Bench,
    Kills,
    damage_checkpoints,
    each_in_turn,
    fill_disk,
    flip_a_bit,
    flip_anywhere,
    stop_and_resume,
    truncate,
)
from reliability_trainers import BATCH_SIZE, STEPS, Trainer, build_trainers

FULL = {"kills": 100, "flips": 100, "truncations": 50, "full_disks": 30, "stops": 20}
QUICK = {"kills": 5, "flips": 5, "truncations": 4, "full_disks": 2, "stops": 2}


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    counts = QUICK if options.quick else FULL
    out = options.out.resolve()
    with contextlib.redirect_stdout(sys.stderr):
        trainers = build_trainers()
        found = {name: measure(trainer, out / name, counts) for name, trainer in trainers.items()}
    settings = {"steps": STEPS, "batch_size": BATCH_SIZE, "damaged_at_step": STOPPED, "checkpoint_every": 1}
    print_result("reliability", settings=settings, trainers=found)


def measure(trainer: Trainer, folder: Path, counts: dict[str, int]) -> dict[str, Any]:
    """Do all faults to one trainer, unless the folder has the result of an earlier start."""
    result = folder.with_suffix(".json")
    if result.exists():
        return json.loads(result.read_text())
    shutil.rmtree(folder, ignore_errors=True)
    bench = Bench(trainer, folder, seed=0)
    newest = trainer.newest(bench.base)
    assert newest is not None
    files = {path.name: path.stat().st_size for path in trainer.files(newest)}
    found = {
        "trainer": trainer.name,
        "checkpoint_bytes": files,
        "kills": Kills(bench).run(counts["kills"]),
        "bit_flips_anywhere": damage_checkpoints(bench, counts["flips"], flip_anywhere, flip_a_bit),
        "truncations": damage_checkpoints(bench, counts["truncations"], each_in_turn, truncate),
        "full_disk": fill_disk(bench, counts["full_disks"]),
        "stops": stop_and_resume(bench, counts["stops"]),
    }
    result.write_text(json.dumps(found))
    return found


if __name__ == "__main__":
    main()
