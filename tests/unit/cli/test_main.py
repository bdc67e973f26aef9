"""The command's process: what has to be set before PyTorch is loaded."""

import subprocess
import sys

import pytest

CODE = """
import os, sys
import isopix.__main__ as command
assert "torch" not in sys.modules
sys.argv = ["isopix", "--version"]
try:
    command.main()
except SystemExit:
    pass
print(os.environ["OMP_WAIT_POLICY"])
"""


@pytest.mark.parametrize(("given", "used"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_sleep_where_they_would_spin_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: str | None, used: str
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if given is not None:
        monkeypatch.setenv("OMP_WAIT_POLICY", given)
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == used
