"""Pages of made-up runs in every state, by name."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from isopix.recipes import igpt
from isopix.reporting.page import read_runs, report_page
from isopix.runs.pretrain import save_data_sample
from isopix.storage.run_folder import RunFolder
from isopix.verbs.report import result_kinds
from tests.unit.reporting.cases import bare, dataset, evidence, fine_tuned, records, whole, write_log

LONG_NAME = "a-very-long-name-of-a-run-" * 5 + "end"
MOST_SHEETS = {"unlabeled": 8, "labeled": 14, "several": 32, "long": 24}


def page_of(*runs: RunFolder) -> str:
    return report_page(read_runs(runs, result_kinds())).html()


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
    "unlabeled": unlabeled,
    "labeled": labeled,
    "several": several,
    "long": long,
}
