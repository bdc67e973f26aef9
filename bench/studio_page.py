"""Screenshot of `isopix studio` in a headless Chromium: the lower half of a test image, completed.

    python bench/studio_page.py docs/pictures/studio.png RUN RUN

Needs gradio, playwright and Chromium.
"""

import os
import shutil
import subprocess
import sys

VIEWPORT = {"width": 1280, "height": 960}
# The third picture of the row is there, and the line below it is of finished ones.
FINISHED = """() => document.querySelectorAll('#complete-result img')[2]
    && document.querySelector('#complete-result').innerText.includes('nats')"""


def main() -> None:
    picture, *runs = sys.argv[1:]
    command = [sys.executable, "-m", "isopix", "studio", *runs, "--no-browser", "--device", "cpu"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stderr
        url = next(line.split()[1] for line in server.stderr if line.startswith("studio: "))
        visit(url, picture)
    finally:
        server.kill()


def visit(url: str, picture: str) -> None:
    """Complete the lower half of the first test image, and save the page."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  an optional package

    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport=VIEWPORT, color_scheme="light")
        page.goto(url)
        page.wait_for_selector("#editor canvas")
        page.get_by_label("Lower half").check()
        page.wait_for_timeout(500)
        page.click("#complete")
        page.wait_for_function(FINISHED)
        page.mouse.move(0, 0)
        page.wait_for_timeout(500)
        page.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main()
