"""What importing a checkpoint takes: the model itself and little more."""

import subprocess
import sys
from pathlib import Path

import pytest

from isopix.interop import crc32c
from tests.unit.interop import bundles, variables

PROGRAM = """
import re, sys
from pathlib import Path

import torch

from isopix.interop import openai


def bytes_of(key):
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{key}:\\s+(\\d+) kB", status)[1]) * 1024


torch.ones(9).aminmax()
before = bytes_of("VmRSS")
imported = openai.read(Path(sys.argv[1]), torch.zeros(7, 3))
model = sum(tensor.nbytes for tensor in imported.tensors.values())
print(model, bytes_of("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
def test_a_checkpoint_is_imported_in_a_fifth_more_memory_than_the_model(tmp_path: Path) -> None:
    prefix = tmp_path / "model.ckpt-1"
    model = variables.draw(depth=10, width=512, heads=8)
    bundles.layout(model, shards=3, checksum=lambda raw: crc32c.extend(0, raw)).write(prefix)
    program = [sys.executable, "-c", PROGRAM, str(prefix)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    size, taken = map(int, done.stdout.split())
    assert size > 120 * 2**20
    assert taken < 1.2 * size
