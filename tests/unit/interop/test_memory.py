"""What importing a checkpoint takes, to the run folder on the disk: the model itself and little more."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.interop import bundles

PROGRAM = """
import re, sys
from pathlib import Path

import torch

from isopix.interop import openai
from isopix.interop.imported_model import import_run


def bytes_of(key):
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{key}:\\s+(\\d+) kB", status)[1]) * 1024


def adopted(name):
    colors = torch.cartesian_prod(*[torch.tensor([0.0, 255.0])] * 3)[:7]
    out = Path(f"{name}-run")
    read = lambda: openai.read_checkpoint(Path(name), colors)
    return import_run(read, out, data=None)


adopted(sys.argv[1])  # a small one: what torch loads when it is first used is not the model's
before = bytes_of("VmRSS")
imported = adopted(sys.argv[2])
model = sum(tensor.nbytes for tensor in imported.tensors.values())
print(model, bytes_of("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_a_checkpoint_is_imported_in_a_fifth_more_memory_than_the_model(tmp_path: Path) -> None:
    names = [str(tmp_path / "small.ckpt-1"), str(tmp_path / "model.ckpt-1")]
    for name, sizes in zip(names, ({}, {"depth": 10, "width": 512, "heads": 8}), strict=True):
        bundles.write(Path(name), bundles.variables(**sizes), shards=3)
    done = subprocess.run([sys.executable, "-c", PROGRAM, *names], capture_output=True, text=True, check=True)
    size, taken = map(int, done.stdout.split())
    assert size > 120 * 2**20
    assert taken < 1.2 * size
