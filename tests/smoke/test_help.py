"""Help and wrong words need no heavy module; commands are listed in the order in which they are needed."""

import json
import subprocess
import sys

from isopix.cli.main import ORDER
from isopix.verbs import VERBS

# Modules that take longer to load than a page of help may.
HEAVY = ["torch", "numpy", "scipy", "sklearn", "matplotlib", "PIL", "pyarrow", "jinja2"]
WRONG = ["--version", "nope", "sample", "sample run --nope", "sample run -n 0"]

# One process shows every page as a process per page would: only isopix.cli.main is imported again.
SHOW = """
import contextlib, io, json, runpy, sys
calls, heavy = map(json.loads, sys.argv[1:])
pages = []
for words in calls:
    sys.argv = ["isopix", *words.split()]
    sys.modules.pop("isopix.cli.main", None)
    pages.append(io.StringIO())
    with contextlib.redirect_stdout(pages[-1]), contextlib.redirect_stderr(pages[-1]):
        with contextlib.suppress(SystemExit):
            runpy.run_module("isopix.cli.main", run_name="__main__")
print(json.dumps([[page.getvalue() for page in pages], [name for name in heavy if name in sys.modules]]))
"""


def test_help_is_in_order_and_loads_no_heavy_module() -> None:
    calls = ["--help", *(f"{word} --help" for word in VERBS), *WRONG]
    done = subprocess.run(
        [sys.executable, "-c", SHOW, json.dumps(calls), json.dumps(HEAVY)],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "400", "TERM": "dumb"},
    )
    pages, loaded = json.loads(done.stdout)
    assert loaded == []
    words = [line.split()[1] for line in pages[0].splitlines() if line.startswith("│ ") and line[2] != " "]
    assert words[: len(ORDER.split())] == ORDER.split()
    for word, page in zip(VERBS, pages[1:], strict=False):
        assert f"Example: isopix {word}" in page
