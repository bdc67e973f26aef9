"""Sampling beside another busy process. Threads spin briefly at the end of a parallel loop and then sleep, as
isopix sets them, or sleep at once, or spin for long, as OpenMP does by default. Prints JSON.

    python bench/busy_machine.py --repeats 5

Times the process of `isopix sample` for four images, start included, of igpt.tiny with 16 colors after one
step of training.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from measure import print_result
from speed.timing import spread

OWN, SLEEPING, SPINNING = "isopix", "threads that sleep at once", "threads that spin for long"
POLICIES = {OWN: {}, SLEEPING: {"GOMP_SPINCOUNT": "0"}, SPINNING: {"GOMP_SPINCOUNT": "300000"}}
TRAINING = ["pretrain", "igpt.tiny", "--data", "digits", "steps=1", "batch_size=4", "num_colors=16"]
ISOPIX = [sys.executable, "-m", "isopix"]


def main() -> None:
    """Time all conditions in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    times: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        subprocess.run([*ISOPIX, *TRAINING, "--out", str(run)], check=True, capture_output=True)
        for _ in range(options.repeats):
            for others in ("idle", "one busy process"):
                for policy, environment in POLICIES.items():
                    with busy(others != "idle"):
                        start = time.perf_counter()
                        sample(run, environment)
                    times.setdefault((others, policy), []).append(time.perf_counter() - start)
    print_result(
        "isopix sample beside a busy process",
        comparisons=[
            {
                "task": f"isopix sample, 4 images of igpt.tiny, {others}",
                "peer": peer,
                "speedup": median(times[others, peer]) / median(times[others, OWN]),
                "n": options.repeats,
                "isopix_seconds": spread(times[others, OWN]),
                "peer_seconds": spread(times[others, peer]),
            }
            for others in ("idle", "one busy process")
            for peer in (SLEEPING, SPINNING)
        ],
    )


def sample(run: Path, environment: dict[str, str]) -> None:
    """Sample four images in a process of its own."""
    command = [*ISOPIX, "sample", str(run), "-n", "4"]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})


@contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """Keep one core busy with another process."""
    if not wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            yield
        finally:
            other.kill()


if __name__ == "__main__":
    main()
