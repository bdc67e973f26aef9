"""Speed next to transformers, scikit-learn and plain PyTorch, and correctness on this device.

python bench/run.py --only training sampling --out speed.json     # about half an hour for all, on two cores
python bench/run.py time-to-quality --help                        # minutes of training to a loss: hours

Each benchmark compares the outputs of isopix and of its peer, then times them in turn; the table has the
fastest variant of each (eager or compiled, fp32 or bf16). A ratio below 1 means that isopix is slower. The
file is written after every benchmark; that of `growth` gets its figure beside it, as NAME-growth.png.
"""

import argparse
import gc
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import time_to_quality
import torch
from cells import format_ratio, format_seconds, head, recorded_peak_memories
from speed import (
    attention,
    batches,
    correctness,
    features,
    growth,
    masked_training,
    palettes,
    probe_sweep,
    sampling,
    training,
    visible_patches,
)
from speed.benchmark import TINY, Benchmark
from speed.timing import Stopwatch, first_line

from isopix.core.device import free_cached_memory, reuse_freed_memory, select_device
from isopix.plots import style
from isopix.storage.atomic import write_json

# In the order in which they run.
BENCHMARKS: tuple[Benchmark[Any], ...] = (
    *correctness.BENCHMARKS,
    *training.BENCHMARKS,
    *masked_training.BENCHMARKS,
    *attention.BENCHMARKS,
    *sampling.BENCHMARKS,
    *visible_patches.BENCHMARKS,
    *features.BENCHMARKS,
    *training.LARGE,
    *batches.BENCHMARKS,
    *palettes.BENCHMARKS,
    *probe_sweep.BENCHMARKS,
    *growth.BENCHMARKS,
)
REPEATS = {"cpu": 5, "cuda": 10, TINY: 1}
MAX_SECONDS = {"cuda": 10.0}  # of the repeats of a benchmark


def main() -> None:
    """Run the benchmarks; exit with 1 if one fails, or if all are skipped."""
    if sys.argv[1:2] == ["time-to-quality"]:
        time_to_quality.run(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of the names; default: all")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, help="of each variant; default: 5 (GPUs: up to 10)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start none after N minutes")
    parser.add_argument("--tiny", action="store_true", help="smallest sizes, whose times mean nothing")
    parser.add_argument("--out", type=Path, help="JSON file: machine, checks, seconds, bytes of peak memory")
    options = parser.parse_args()
    reuse_freed_memory()
    device = select_device(options.device)
    size = TINY if options.tiny else "cuda" if device.type == "cuda" else "cpu"
    watch = Stopwatch(device, options.repeats or REPEATS[size], MAX_SECONDS.get(size, 600.0))
    records: list[dict[str, Any]] = []
    about = {**head("bench/run.py", device), "precision": watch.precision, "size": size}
    found = {**about, "benchmarks": records}
    try:
        for record in run(options.only, size, watch, options.minutes):
            records.append(record)
            if options.out:
                write_json(options.out, found)
                draw_growth(record, options.out)
    finally:
        show(found)
    failed = [each["name"] for each in records if each["state"] == "failed"]
    skipped = all(each["state"] == "skipped" for each in records)
    sys.exit(f"failed: {', '.join(failed)}" if failed else "no benchmark was measured" if skipped else 0)


def run(prefixes: list[str], size: str, watch: Stopwatch, minutes: float) -> Iterator[dict[str, Any]]:
    """Yield the record of each benchmark once it is done: its name, work and peer, its `state` (`measured`,
    `skipped` or `failed`), the reason, and what `Benchmark.run` returns.
    """
    begin = time.monotonic()
    for each in BENCHMARKS:
        if not each.name.startswith(tuple(prefixes)):
            continue
        reason = each.reason_to_skip(size)
        if time.monotonic() - begin > 60 * minutes:
            reason = reason or f"not started within {minutes:g} minutes"
        about = {"name": each.name, "work": each.work, "peer": each.peer}
        sys.stderr.write(f"{each.name} ...\n" if reason is None else "")
        yield (
            {**about, "state": "skipped", "reason": reason} if reason else about | measured(each, size, watch)
        )


def measured(benchmark: Benchmark[Any], size: str, watch: Stopwatch) -> dict[str, Any]:
    """Measure one, without what others have compiled or left in memory; an error is its record."""
    torch.compiler.reset()
    gc.collect()
    free_cached_memory(watch.device)
    start = time.monotonic()
    try:
        found = benchmark.run(size, watch)
    except Exception as error:  # the others can still be measured
        return {"state": "failed", "reason": first_line(error)}
    return {"state": "measured", "reason": "", "seconds": time.monotonic() - start, **found}


def draw_growth(record: dict[str, Any], out: Path) -> None:
    if record["name"] == "growth" and record["state"] == "measured":
        style.write_figure(growth.plot_growth(record), out.with_name(f"{out.stem}-growth"), record)


def show(found: dict[str, Any]) -> None:
    """Print the comparisons, peak memories and checks of all benchmarks."""
    note = "; smallest sizes, the times mean nothing" if found["size"] == TINY else ""
    print(f"isopix {found['isopix']}, {found['device']}, torch {found['torch']}{note}")
    for record in found["benchmarks"]:
        name = record["name"]
        if record["state"] != "measured":
            print(f"{name}: {record['state']}, {record['reason']}")
            continue
        print(f"{name}: {record['checked']}")
        for alternative, error in record["errors"].items():
            print(f"{name}: {alternative} left out: {error}")
        for comparison in record["comparisons"]:
            print(f"{name}: {text(comparison, record['item'])}")
        for variant, taken in recorded_peak_memories(record["values"]).items():
            print(f"{name}: peak memory of {variant}: {taken / 2**20:,.0f} MiB")


def text(comparison: dict[str, Any], item: str) -> str:
    own, peer = (
        f"{format_seconds(comparison[f'{side}_seconds']['median'])}/{item}" for side in ("isopix", "peer")
    )
    task = ", ".join(filter(None, (comparison["task"], comparison["isopix_alternative"])))
    times = f"{own}; {comparison['peer']}: {peer}; {format_ratio(comparison['speedup'])}"
    return f"{task}: {times}, n = {comparison['n']}"


if __name__ == "__main__":
    main()
