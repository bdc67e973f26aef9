"""The page in a real browser: load, choose, drop, paint, complete, compare, and a bad file."""

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.browser.chromium import browser, has_browser
from tests.smoke.conftest import Run, free_port

__all__ = ["browser"]

has_gradio = importlib.util.find_spec("gradio") is not None
needs_gradio = pytest.mark.skipif(not has_gradio, reason="needs gradio: pip install -e '.[studio]'")
needs_browser = pytest.mark.skipif(
    not (has_gradio and has_browser), reason="needs gradio, playwright and Chromium"
)


def start(*words: object, **env: str) -> tuple[subprocess.Popen[str], str]:
    """Start the command, and return its process and the URL that it prints."""
    # A shell's background jobs ignore Ctrl-C, and their children, too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-m", "isopix", "studio", *map(str, words), "--no-browser", "--device", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | env,
    )
    signal.signal(signal.SIGINT, before)
    assert process.stdout
    lines = []
    for line in process.stdout:
        lines.append(line)
        if found := re.match(r"studio: (http://127\.0\.0\.1:\d+/)", line):
            return process, found[1]
    raise AssertionError("".join(lines))


@pytest.fixture(scope="module")
def url(pristine: Path) -> Iterator[str]:
    process, url = start(pristine / "ar", pristine / "bert", "--port", free_port())
    yield url
    process.kill()
    process.communicate()


@pytest.fixture
def page(url: str, browser: Any) -> Iterator[Any]:
    """The page, which must ask nobody else for anything, and report no error."""
    problems: list[str] = []

    def check(request: Any) -> None:
        if not request.url.startswith((url, "data:", "blob:")):
            problems.append(request.url)

    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = context.new_page()
    found.on("request", check)
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.goto(url)
    found.wait_for_selector("#editor canvas")
    found.wait_for_timeout(1000)  # the canvas is sized
    yield found
    context.close()
    assert problems == []


def finished(page: Any, result: str, text: str, times: int = 1) -> Any:
    """Wait until a result has this text so many times, and return its pictures."""
    page.wait_for_function(
        "([id, text, times]) => document.getElementById(id).innerText.split(text).length > times",
        arg=[result, text, times],
    )
    return page.locator(f"#{result} img").evaluate_all("all => all.map(each => each.src)")


def paint(page: Any) -> None:
    box = page.locator("#editor canvas").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y, steps=8)
    page.mouse.up()
    page.wait_for_timeout(500)


@needs_browser
def test_paint_and_complete(page: Any) -> None:
    page.click("#complete")
    page.wait_for_selector("#complete-result .problem")
    assert "nothing is painted yet" in page.inner_text("#complete-result")
    paint(page)
    page.click("#complete")
    first = finished(page, "complete-result", "nats", 4)
    assert len(first) == 6
    assert len(set(first[2:])) > 1
    page.get_by_label("Seed").fill("1")
    page.click("#complete")
    page.wait_for_function(
        "src => document.querySelectorAll('#complete-result img')[2].src != src", arg=first[2]
    )
    assert finished(page, "complete-result", "nats", 4)[:2] == first[:2]


@needs_browser
def test_what_is_painted_stays_when_another_model_is_chosen(page: Any) -> None:
    paint(page)
    page.get_by_label("bert").check()
    page.wait_for_timeout(1500)  # the canvas is drawn again
    page.click("#complete")
    first, seen, *_ = finished(page, "complete-result", "nats", 4)
    assert seen != first
    assert page.locator("#complete-result a").count() == 2  # PNG, GIF


@needs_browser
def test_drop_files(page: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"not an image")
    photo = np.random.default_rng(0).integers(0, 255, (50, 40, 3), dtype=np.uint8)
    Image.fromarray(photo).convert("CMYK").save(tmp_path / "cmyk.jpg")
    before = page.get_attribute("#pointer img", "src") if page.locator("#pointer img").count() else None
    page.set_input_files("#file input[type=file]", tmp_path / "bad.png")
    page.wait_for_selector("#image-message .problem")
    assert page.inner_text("#image-message").startswith("the image cannot be read: not a JPEG, PNG")
    page.wait_for_selector("#file input[type=file]", state="attached")
    page.set_input_files("#file input[type=file]", tmp_path / "cmyk.jpg")
    page.wait_for_selector("#image-message .problem", state="detached")
    page.get_by_role("tab", name="Surprise").click()
    page.click("#surprise")
    page.wait_for_selector("#surprise-result table")
    assert before is None or before != page.get_attribute("#pointer img", "src")


@needs_browser
def test_choose_and_compare_two_models(page: Any) -> None:
    page.locator("#images button.thumbnail-item").nth(2).click()
    page.get_by_label("Lower half").check()
    page.get_by_role("tab", name="Compare").click()
    page.click("#compare")
    pictures = finished(page, "compare-result", "nats", 8)
    assert len(pictures) == 12
    assert pictures[0] == pictures[6]  # the same image
    assert {"ar", "bert"} <= set(page.locator("#compare-result h3").all_inner_texts())


@needs_browser
def test_layers_and_attention(page: Any) -> None:
    page.get_by_role("tab", name="Layers").click()
    page.click("#neighbors")
    finished(page, "layers-result", "similarity")
    page.click("#map")
    page.wait_for_selector("#layers-result .map svg")
    page.get_by_role("tab", name="Attention").click()
    box = page.locator("#pointer img").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.8)
    assert len(finished(page, "attention-result", "rollout")) == 3
    assert page.locator("#row input").input_value() == "6"
    assert page.locator("#column input").input_value() == "3"


@needs_browser
def test_users_do_not_mix_and_phones_do_not_scroll_sideways(page: Any, browser: Any, url: str) -> None:
    page.locator("#images button.thumbnail-item").nth(4).click()
    context = browser.new_context(viewport={"width": 360, "height": 760})
    other = context.new_page()
    other.goto(url)
    other.wait_for_selector("#editor canvas")
    for each in (page, other):
        each.get_by_label("Lower half").check()
        each.click("#complete")
    mine, theirs = (finished(each, "complete-result", "nats", 4) for each in (page, other))
    width = other.evaluate("document.documentElement.scrollWidth")
    tabs = [each for each in other.get_by_role("tab").all() if each.is_visible()]
    shown = [each.inner_text() for each in tabs]
    context.close()
    assert mine[0] != theirs[0]
    assert (width, shown) == (360, ["Complete", "Compare", "Layers", "Attention", "Surprise"])


OTHERS = ("Host", "evil.example"), ("Origin", "http://evil.example"), ("Sec-Fetch-Site", "cross-site")


@needs_gradio
def test_it_answers_its_own_page_and_ctrl_c_ends_it(pristine: Path, isopix: Run, tmp_path: Path) -> None:
    import httpx  # noqa: PLC0415  of gradio

    def upload(size: int, *other: tuple[str, str]) -> int:
        options = {"files": {"files": bytes(size)}, "headers": other, "timeout": 60}
        return httpx.post(f"{url}gradio_api/upload", **options).status_code

    port = free_port()
    process, url = start(pristine / "ar", "--port", port, TMPDIR=str(tmp_path))
    assert url == f"http://127.0.0.1:{port}/"
    code, _, err = isopix("studio", str(pristine / "ar"), "--port", str(port), "--no-browser")
    assert code == 1
    assert err.splitlines()[-1].startswith(f"isopix: port {port}: address already in use; choose another")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port))  # as it listens on one address
    for other in OTHERS:
        pages = [httpx.get(url + path, headers=[other]) for path in ("", "config", "gradio_api/heartbeat/a")]
        assert {*(each.status_code for each in pages), upload(1, other)} == {403}
    assert (upload(1), upload(2**26 + 1)) == (200, 413)
    [uploads] = tmp_path.glob("*isopix-studio*")
    (uploads / "sparse").touch()
    os.truncate(uploads / "sparse", 2**28)
    assert upload(1) == 403
    end_at_once(process)
    assert not uploads.exists()


@needs_browser
def test_ctrl_c_while_a_page_is_computing(pristine: Path, browser: Any) -> None:
    process, url = start(pristine / "ar", "--port", free_port())
    page = browser.new_page()
    page.goto(url)
    page.get_by_label("Lower half").check()
    page.click("#complete")
    page.wait_for_timeout(100)
    end_at_once(process)
    page.close()


def end_at_once(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert rest.strip() == "isopix: interrupted"


def test_without_gradio_it_names_the_extra(isopix: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, _, err = isopix("studio", "runs/a")
    assert (code, err) == (2, "isopix: the studio needs gradio: pip install -e '.[studio]'\n")
