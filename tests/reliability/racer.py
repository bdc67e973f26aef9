"""Many processes that want one run folder at the same moment; counts how their races ended, as JSON.

Called with an empty folder and the number of races; closing a pipe releases the three runners of each.
"""

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from isopix.storage.run_folder import RunFolder
from tests.run_folders import create_run

RUNNERS = 3
HOLD = 0.02  # seconds that a winner stays inside
OUTCOMES = {0: "won", 1: "refused", 2: "double"}


def create(path):
    create_run(path)


def lock(path):
    """Hold the lock; FileExistsError if anyone else does."""
    with RunFolder(path).lock():
        (path / "inside").touch(exist_ok=False)
        time.sleep(HOLD)
        (path / "inside").unlink()


def run(contest, path):
    try:
        contest(path)
    except ValueError as refusal:
        return 1 if str(path) in str(refusal) else 3
    except FileExistsError:
        return 2
    return 0


def race(contest, path):
    gate, closer = os.pipe()
    pids = []
    for _ in range(RUNNERS):
        pid = os.fork()
        if pid == 0:
            os.close(closer)
            os.read(gate, 1)
            os._exit(run(contest, path))
        pids.append(pid)
    os.close(gate)
    os.close(closer)
    return Counter(OUTCOMES[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])] for pid in pids)


if __name__ == "__main__":
    folder, races = Path(sys.argv[1]), int(sys.argv[2])
    results = {"create": [race(create, folder / str(i)) for i in range(races)]}
    results["lock"] = [race(lock, folder / str(i)) for i in range(races)]
    sys.stdout.write(json.dumps(results))
