"""The package offers the functions by their names, and imports them on first use."""

import subprocess
import sys

import pytest

import isopix

PROGRAM = """
import sys, time
before = time.perf_counter()
import isopix
took = time.perf_counter() - before
assert took < 0.3, took
assert "torch" not in sys.modules and "numpy" not in sys.modules
assert {"pretrain", "probe", "load"} < set(isopix.__all__) <= set(dir(isopix))
assert isopix.load and "torch._dynamo" not in sys.modules  # the compiler, which takes a second
"""


def test_importing_it_imports_no_torch_and_is_quick() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


@pytest.mark.parametrize("name", isopix.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    assert getattr(isopix, name).__doc__
