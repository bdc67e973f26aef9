"""Many real processes want one run folder at the same moment."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

RACES = 50
RUNNERS = 3


@pytest.fixture(scope="module")
def races(tmp_path_factory):
    racer = Path(__file__).with_name("racer.py")
    command = [sys.executable, str(racer), str(tmp_path_factory.mktemp("races")), str(RACES)]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def test_of_several_creators_exactly_one_gets_the_folder(races):
    assert races["create"] == [{"won": 1, "refused": RUNNERS - 1}] * RACES


def test_a_run_folder_never_has_two_writers(races):
    assert len(races["lock"]) == RACES
    for outcome in races["lock"]:
        assert set(outcome) <= {"won", "refused"}
        assert sum(outcome.values()) == RUNNERS
        assert outcome["won"] >= 1
    assert sum(outcome.get("refused", 0) for outcome in races["lock"]) > RACES // 5
