"""Pages of made-up runs in every state, by name."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from isopix.recipes import igpt
from isopix.runs.pretrain import save_data_sample
from tests.unit.reporting.cases import bare, dataset, evidence, fine_tuned, records, whole, write_log
from tests.unit.reporting.test_pages import page_of

LONG_NAME = "a-very-long-name-of-a-run-" * 5 + "end"
MOST_SHEETS = {"unlabeled": 8, "labeled": 14, "several": 35, "long": 24}


def unlabeled(folder: Path) -> str:
    run = bare(folder / "photos")
    run.environment.write_text(json.dumps({"device": "cpu", "command": ["isopix", "pretrain", "photos"]}))
    write_log(run, records())
    save_data_sample(run, dataset(0))
    return page_of(run)


def labeled(folder: Path) -> str:
    return page_of(whole(folder / "photos"))


def several(folder: Path) -> str:
    other = whole(folder / "bert", igpt.digits_bert(), evidence((0.2, 0.6, 0.3)))
    wide = whole(folder / "wide", replace(igpt.digits(), name="wide"), evidence((0.3, 0.4, 0.7)))
    return page_of(whole(folder / "photos"), other, wide, fine_tuned(folder / "tuned"))


def long(folder: Path) -> str:
    run = whole(folder / LONG_NAME)
    save_data_sample(run, dataset(100))
    return page_of(run)


PAGES: dict[str, Callable[[Path], str]] = {
    each.__name__: each for each in (unlabeled, labeled, several, long)
}
