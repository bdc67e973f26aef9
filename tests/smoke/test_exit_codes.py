"""A wrong call of any command exits with 2 and one line; what is missing is a wrong call, too."""

import pytest

from tests.smoke.conftest import Run
from tests.smoke.test_help import PAGES, SUBCOMMANDS

COMMANDS = [words for words in PAGES if len(words) > 1 or words[0] not in SUBCOMMANDS]
# Of commands that read a run folder: none is there.
READERS = [
    "resume",
    "probe",
    "analyze",
    "evaluate",
    "low-data",
    "sample",
    "complete",
    "reconstruct",
    "verify",
]
READERS += ["report", "compare"]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_unknown_option_is_a_wrong_call(isopix: Run, words: list[str]) -> None:
    code, out, err = isopix(*words, "--not-an-option")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(("isopix: unknown option '--not-an-option'; ", "isopix: missing --data; "))


@pytest.mark.parametrize("name", READERS)
def test_a_run_that_is_not_there_is_a_wrong_call(isopix: Run, name: str) -> None:
    code, out, err = isopix(name, "no-such-run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "no-such-run" in err
