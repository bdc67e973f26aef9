import json
import re

import pytest

from isopix.storage.record_types import check_environment, check_state, read_environment

STATE = {"step": 3, "codec": "ab", "data": "cd"}


def test_what_a_run_writes_is_accepted():
    origin = {"labels_seen": None, "initial_labels_seen": 0, "decoder_valid": True}
    check_state({**STATE, "origin": origin, "classes": ["a"], "run_id": None, "later": object()})
    check_environment({"threads": 2, "plugins": [{"path": "a.py", "sha256": "ab", "parts": ["block x"]}]})


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"step": "3"}, "state.json: 'step' is '3'; allowed: a step number"),
        ({"step": True}, "state.json: 'step' is True; allowed: a step number"),
        ({"step": -1}, "state.json: 'step' is -1; allowed: a step number"),
        ({"step": 10**30}, "allowed: a step number"),
        ({"classes": ["a", 1]}, "state.json: 'classes' is ['a', 1]; allowed: list[str]"),
        ({"origin": []}, "state.json: 'origin' is []; allowed: an object"),
        ({"origin": {"labels_seen": 1}}, "state.json: 'origin' has no 'initial_labels_seen'"),
        ({"skipped_batches": -1}, "state.json: 'skipped_batches' is -1; allowed: a step number"),
        ({"accumulate": 0}, "state.json: 'accumulate' is 0; allowed: 1 or more"),
        ({"accumulate": "2"}, "state.json: 'accumulate' is '2'; allowed: 1 or more"),
        ({"accumulate": 4, "skipped_batches": 7}, None),
        ({"codec": "x" * 99}, None),
        ({"codec": [1] * 99}, "..."),
    ],
)
def test_a_wrong_state_is_named(values, line):
    if line is None:
        check_state({**STATE, **values})
        return
    with pytest.raises(ValueError, match=re.escape(line)) as error:
        check_state({**STATE, **values})
    assert len(str(error.value)) < 150


def test_a_missing_value_is_named():
    with pytest.raises(ValueError, match=r"state\.json has no 'codec'"):
        check_state({"step": 3, "data": ""})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"threads": "2"}', "environment.json: 'threads' is '2'; allowed: int"),
        ('{"plugins": [{"path": "a"}]}', "an element of environment.json: 'plugins' has no 'sha256'"),
        ('{"threads": NaN}', "environment.json is not JSON: NaN is not a finite number"),
        ('{"majority": 1e999}', "environment.json is not JSON: 1e999 is not a finite number"),
        ('{"threads": 1' + "0" * 5000 + "}", "an integer of 5001 digits is too large"),
        ("[" * 10**6, "environment.json is not JSON: "),
        ("[]", "environment.json is not a JSON object"),
        (json.dumps({"command": ["isopix"]}), "environment.json has no 'images'"),
    ],
)
def test_a_wrong_environment_is_named_with_its_folder(tmp_path, text, line):
    file = tmp_path / "environment.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=re.escape(line)) as error:
        read_environment(file, *(["images"] if "images" in line else []))
    assert str(error.value).startswith(f"{tmp_path}: ")
