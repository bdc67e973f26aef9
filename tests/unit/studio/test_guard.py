"""Requests of other pages, and uploads above the limits, are refused on every route."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import isopix
from isopix.studio.guard import MAX_UPLOADS, Guard

HERE = {"host": "localhost:7860"}
HOSTS = ("", "evil.example:7860", "127.0.0.1.evil.example", "a@localhost", "192.168.0.9:7860", "0.0.0.0:7860")
ORIGINS = ("null", "http://evil.example", "http://localhost:8888", "http://127.0.0.1:7860")
OTHERS = [*({"host": each} for each in HOSTS), *(HERE | {"origin": each} for each in ORIGINS), {}]
OTHERS += [HERE | {"sec-fetch-site": each} for each in ("cross-site", "same-site")]
OWN = [{"host": each} for each in ("localhost", "[::1]:7860", "127.0.0.1:9000")]
OWN += [HERE, HERE | {"origin": "http://localhost:7860", "sec-fetch-site": "same-origin"}]


def answer(guard: Guard, headers: dict[str, str], kind: str = "http") -> Any:
    """The status of a request, or the code with which a web socket is closed."""
    sent = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(guard({"type": kind, "headers": pairs}, None, send))
    return sent[0].get("status", sent[0].get("code"))


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    async def page(scope: dict[str, Any], receive: None, send: Any) -> None:
        await send({"status": 200})

    return Guard(page, tmp_path)


@pytest.mark.parametrize("headers", [*OTHERS, *OWN], ids=str)
def test_requests_of_other_pages_are_refused(guard: Guard, headers: dict[str, str]) -> None:
    found = answer(guard, headers), answer(guard, headers, "websocket")
    assert found == ((403, 1008) if headers in OTHERS else (200, 200))


def test_uploads_are_limited_together_also_those_that_are_arriving(guard: Guard, tmp_path: Path) -> None:
    last, too_much = ({**HERE, "content-length": str(size)} for size in (999, 1000))
    (tmp_path / "upload.png").touch()
    os.truncate(tmp_path / "upload.png", MAX_UPLOADS - 1000)
    assert (answer(guard, last), answer(guard, too_much), answer(guard, HERE)) == (200, 403, 200)
    assert answer(guard, {**HERE, "transfer-encoding": "chunked"}) == 403
    guard.arriving = 1
    assert answer(guard, last) == 403


def test_it_listens_on_this_machine_alone_and_the_guard_is_in_front(monkeypatch: pytest.MonkeyPatch) -> None:
    gradio, launch = MagicMock(), MagicMock(side_effect=KeyboardInterrupt)
    gradio.queue.return_value.launch = launch
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    for name in ("gradio", "starlette", "starlette.middleware", "isopix.studio.panel", "isopix.studio.page"):
        monkeypatch.setitem(sys.modules, name, gradio)
    del sys.modules["isopix.studio.page"]
    monkeypatch.setattr("isopix.studio.page.build_page", lambda runs: gradio)
    monkeypatch.setattr("isopix.studio.run.open_runs", lambda *paths, **settings: [])
    with pytest.raises(KeyboardInterrupt):
        isopix.open_studio("run", browser=False)
    given, [guard] = launch.call_args.kwargs, gradio.Middleware.mock_calls
    assert (given["server_name"], given["share"], given["max_file_size"]) == ("127.0.0.1", False, 2**26)
    assert (given["app_kwargs"], guard.args) == ({"middleware": [gradio.Middleware.return_value]}, (Guard,))
    assert guard.kwargs["uploads"].name.startswith(".tmp-isopix-studio-")
    assert MAX_UPLOADS == 2**28
