"""Time from the click on Complete in `isopix studio` to the finished pictures, in a headless Chromium.

    python bench/studio_page.py RUN --times 5 > bench/results/studio-cpu.json
    python bench/studio_page.py RUN RUN --times 1 --picture docs/pictures/studio.png

The lower half of the first test image is completed four times at once. "shown" ends when the first row or
pass is on the page, "first" when the pictures are finished, all four together. `--picture` saves a
screenshot. Needs gradio, playwright and Chromium.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cells import print_result

VIEWPORT = {"width": 1280, "height": 960}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    command = [sys.executable, "-m", "isopix", "studio", *given.runs, "--no-browser", "--device", "cpu"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout
        lines = iter(server.stdout)
        url = next(line.split()[1] for line in lines if line.startswith("studio: "))
        times = visit(url, given.times, given.picture)
    finally:
        server.kill()
    found = {
        name: {"n": len(all_), "median": statistics.median(all_), "min": min(all_), "max": max(all_)}
        for name, all_ in times.items()
    }
    cores = len(os.sched_getaffinity(0))
    print_result("studio", runs=[Path(run).name for run in given.runs], cores=cores, unit="s", seconds=found)


def visit(url: str, times: int, picture: Path | None) -> dict[str, list[float]]:
    """Return the seconds of each completion, the first of which warms up and is left out."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  an optional package

    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport=VIEWPORT, color_scheme="light")
        page.goto(url)
        page.wait_for_selector("#editor canvas")
        page.get_by_label("Lower half").check()
        found = [complete(page, seed) for seed in range(times + 1)]
        if picture:
            page.mouse.move(0, 0)
            page.wait_for_timeout(500)
            page.screenshot(path=picture)
        browser.close()
    return {name: [round(each[i], 3) for each in found[1:]] for i, name in enumerate(("shown", "first"))}


# The first completion is another picture than before; `old` is empty before the first.
CHANGED = "old => (document.querySelectorAll('#complete-result img')[2]?.src ?? old) != old"
FINISHED = f"old => ({CHANGED})(old) && document.querySelector('#complete-result').innerText.includes('nats')"


def complete(page: Any, seed: int) -> tuple[float, float]:
    page.locator("#seed input").fill(str(seed))
    page.wait_for_timeout(500)
    old = page.locator("#complete-result img").evaluate_all("all => all[2]?.src ?? ''")
    began = time.perf_counter()
    page.click("#complete")
    page.wait_for_function(CHANGED, arg=old)
    shown = time.perf_counter() - began
    page.wait_for_function(FINISHED, arg=old)
    return shown, time.perf_counter() - began


if __name__ == "__main__":
    main()
