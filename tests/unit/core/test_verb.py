"""A verb takes the fields of its settings as arguments, checks them, and keeps its call."""

import inspect
import multiprocessing
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from isopix.core import verb as module
from isopix.core.choices import Count
from isopix.core.config import config
from isopix.core.overrides import override, parse
from isopix.core.verb import Flat, current_call, verb


@config
class Settings:
    count: Count = 1
    """How many."""
    name: str = "a"


@config
class Recipe:
    x: int = 0
    part: Settings = Settings()
    value: Any = None


DEFAULT = Settings(name="b")


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(module, "VERBS", {})

    @verb()
    def attempt(run: str, *settings: str, limit: int | None = None, config: Flat[Settings] = DEFAULT) -> Any:
        override(Recipe(), parse(settings))
        return (run, settings, limit, config), current_call()

    return attempt


def test_fields_and_their_settings_are_the_same_call(call: Callable[..., Any]) -> None:
    given, record = call("r", "x=1", count=2)
    assert given == ("r", ("x=1",), None, Settings(count=2, name="b"))
    arguments = {"run": "r", "settings": ["x=1"], "limit": None, "count": 2, "name": "b"}
    assert record == {"verb": "attempt", "arguments": arguments}
    assert call("r", "x=1", config=Settings(count=2, name="b")) == (given, record)
    assert list(inspect.signature(call).parameters) == [*arguments]
    assert current_call() == {"verb": "", "arguments": {}}


@pytest.mark.parametrize("value", ["a b", "null", "1e-3", "", "[x", "é\n", 1e-05, True, None, ["no", 2]])
def test_settings_are_words_a_mapping_or_keywords(call: Callable[..., Any], value: Any) -> None:
    mapping = {"part": {"name": "a: b"}, "x": np.int64(2)}
    (_, words, *_), _ = call("r", "x=1", settings=mapping, value=value)
    assert parse(words) == {"x": 2, "part.name": "a: b", "value": value}
    assert call(run="r", settings={"x": 2}) == call("r", x=2) == call("r", "x=2")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"config": Settings(), "count": 1}, "give config= or count=, not both"),
        ({"config": 3}, "config is 3; it must be an instance of Settings"),
        ({"count": 0}, "count is 0; allowed: 1 or more"),
        ({"limt": 1}, "unknown setting 'limt'; did you mean 'limit'"),
        ({"cuont": 1}, "unknown setting 'cuont'; did you mean 'part.count'"),
        ({"settings": ["depth=6"]}, "settings is .*; it must be a valid dictionary"),
        ({"limit": "x"}, "limit is 'x'; it must be a valid integer"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[..., Any], given: dict[str, Any], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        call("r", **given)


def test_settings_by_position_are_text(call: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="settings are text, as in 'steps=3', or keywords: steps=3"):
        call("r", {"depth": 6})


def test_a_worker_that_runs_the_script_again_names_the_guard(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python marks a process so while it imports the script that started it."""
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(SystemExit):
        call("r")
    line = "isopix: a worker process ran the script again, up to attempt(); put the calls of a script below: "
    assert capsys.readouterr().err == f'{line}if __name__ == "__main__":\n'
