"""Records whose fields are missing or of another type: every reader says so in one line."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from isopix.reporting.run_record import read_run
from isopix.reporting.summary import model_card, summary_rows
from isopix.storage.run_folder import RunFolder
from isopix.studies.comparison import read_finished_run
from isopix.verbs.report import result_kinds
from tests.unit.reporting.cases import fine_tuned, whole

WRONG = ("drop", None, "x", -1, 2.5, True, [], {}, ["x"], {"x": "y"}, 10**400)


def fields(values: Any, inside: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values, of a list the first."""
    names = values if isinstance(values, dict) else range(len(values[:1])) if isinstance(values, list) else ()
    for name in names:
        yield (*inside, name)
        yield from fields(values[name], (*inside, name))


def wrong(record: str) -> Iterator[str]:
    """The record with each change of one field."""
    for *inside, name in fields(json.loads(record)):
        for change in WRONG:
            values = parent = json.loads(record)
            for each in inside:
                parent = parent[each]
            if change == "drop":
                del parent[name]
            else:
                parent[name] = change
            yield json.dumps(values)


def problems(run: Path) -> list[str]:
    """What `compare`, the report and the model card say about a run."""
    lines = list[str]()
    try:
        read_finished_run(run)
    except (ValueError, OSError) as error:
        lines.append(str(error))
    try:
        record = read_run(RunFolder.open(run), result_kinds())
        assert summary_rows({"run": record})
        assert model_card(record, name="a/b", library="isopix")
    except ValueError as error:
        return [*lines, str(error)]
    return [*lines, *record.problems]


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [whole, fine_tuned])
@pytest.mark.parametrize("name", ["log.jsonl", "environment.json", "recipe.json", "[pe]*s/*.json"])
def test_what_is_wrong_with_a_record_is_one_line(tmp_path: Path, kind: Any, name: str, step: int) -> None:
    run = kind(tmp_path / "run").path
    [file] = run.glob(name)
    text = file.read_text()
    lines = text.splitlines() if name == "log.jsonl" else [text]
    for record in {each[:14]: each for each in lines}.values():
        for changed in islice(wrong(record), 0, None, step):
            file.write_text(text.replace(record.strip(), changed))
            assert not any("\n" in each for each in problems(run)), changed
