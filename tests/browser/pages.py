"""Pages of made-up runs in every state, by name."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from isopix.data.dataset import ImageDataset
from isopix.data.splits import Split
from isopix.recipes import igpt
from isopix.reporting import page
from isopix.runs.pretrain import save_data_sample
from isopix.storage.atomic import write_json
from isopix.storage.run_folder import RunFolder
from tests.unit.reporting.cases import bare, drawing, evidence, records, whole
from tests.unit.reporting.test_finetuning_section import fine_tuned
from tests.unit.reporting.test_low_data_section import result
from tests.unit.reporting.test_run_reader import analysed
from tests.unit.reporting.test_score_section import scored

LONG_NAME = "a-very-long-name-of-a-run-" * 5 + "end"
MOST_SHEETS = {"unlabeled": 8, "labeled": 14, "several": 30, "long": 24}


def data(classes: int) -> ImageDataset:
    """Gray noise with labels, or without any where there are no classes."""
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (max(60, 3 * classes), 3, 8, 8), dtype=torch.uint8, generator=draws)
    names = tuple(f"class number {place} of many" for place in range(classes))
    labels = torch.arange(len(images)) % classes if classes else None
    split = Split(images, labels)
    return ImageDataset("photos", names, split, split, split, "x")


def unlabeled(folder: Path) -> str:
    run = bare(folder / "photos")
    write_json(run.environment, {"device": "cpu", "threads": 2, "command": ["isopix", "pretrain", "photos"]})
    run.log.write_text("".join(f"{line}\n" for line in map(json.dumps, records())))
    save_data_sample(run, data(0))
    drawing(run, "samples")
    drawing(run, "completions")
    return page.build([run])


def everything(path: Path, classes: int = 10) -> RunFolder:
    """A run with labels, and with a file of every command."""
    run = whole(path)
    save_data_sample(run, data(classes))
    found = [result(5, [0.5, 0.6, 0.7], [3]), result("10%", [0.2, 0.2, 0.2], [4])]
    run.low_data.mkdir()
    low_data = {"kind": "low_data", "step": 40, "data": "photos", "select": "validation"}
    write_json(run.low_data / "low-data-00000040-photos-abc.json", low_data | {"results": {"trained": found}})
    analysed(run)
    scores = RunFolder(scored(path.parent / "scored")).scores
    shutil.copytree(scores, run.scores, dirs_exist_ok=True)
    return run


def labeled(folder: Path) -> str:
    return page.build([everything(folder / "photos")])


def several(folder: Path) -> str:
    other = whole(folder / "bert", igpt.digits_bert(), evidence([0.2, 0.6, 0.3]))
    wide = whole(folder / "wide", replace(igpt.digits(), name="wide"), evidence([0.3, 0.4, 0.7]))
    return page.build([everything(folder / "photos"), other, wide, fine_tuned(folder / "tuned")])


def long(folder: Path) -> str:
    return page.build([everything(folder / LONG_NAME, classes=100)])


PAGES: dict[str, Callable[[Path], str]] = {
    "unlabeled": unlabeled,
    "labeled": labeled,
    "several": several,
    "long": long,
}
