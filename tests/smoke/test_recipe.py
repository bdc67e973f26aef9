"""`isopix recipe` explains every setting."""

import json

from tests.smoke.conftest import Run


def test_show_says_what_each_setting_means_and_where_a_changed_one_comes_from(isopix: Run) -> None:
    code, out, _ = isopix("recipe", "show", "igpt.tiny", "depth=6")
    lines = out.splitlines()
    assert code == 0
    assert lines[lines.index("  model.depth=6  (command line; recipe: 4)") + 1].strip() == "Number of blocks."
    assert "  data.holdout=null" in lines
    assert [line for line in lines if line != line.rstrip()] == []


def test_json_has_value_default_source_and_meaning(isopix: Run) -> None:
    _, out, _ = isopix("recipe", "show", "igpt.tiny", "depth=6", "--json")
    assert json.loads(out)["model.depth"] == {
        "path": "model.depth",
        "value": 6,
        "source": "command line",
        "default": 4,
        "meaning": "Number of blocks.",
    }
