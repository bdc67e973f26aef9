"""Law of splits: the result of a verb depends on the images of the splits that it says, and on no others."""

from pathlib import Path
from typing import Any

import pytest

from tests.golden.values import check_golden
from tests.laws.test_options import SPLITS, call, outcome, write

QUICK = "steps=4 depth=1 width=16 batch_size=8 log_every=1 evaluate_every=2 lr=0.01"
RUNS = {
    "ar": f"pretrain igpt.digits --data own.npz {QUICK} --out ar",
    "bert": f"pretrain igpt.digits_bert --data own.npz {QUICK} --out bert",
    "tuned": f"finetune ar --data own.npz {QUICK} patience=null --out tuned",
}
USED = {  # by command, splits whose images change the result
    "evaluate tuned": {"test"},
    "evaluate ar": {"test"},
    "complete ar -n 2 --each 1": {"test"},
    "complete ar -n 2 --each 1 --split validation": {"validation"},
    "reconstruct bert -n 2": {"test"},
    "score ar --maps 0 --limit 8": {"test"},
    "analyze ar --limit 4 --only attention_distance": {"test"},
    "sample ar -n 2 --nearest": {"test", "train"},
    "neighbors ar --split validation --layer 1 --pictures 0": {"validation"},
    "probe ar --method ridge": set(SPLITS),
    "probe ar --method ridge --labels 2 --subsets 2": set(SPLITS),
}


@pytest.mark.usefixtures("unchecked")
def test_results_depend_on_the_images_of_their_splits_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write("own.npz", 40)
    for words in RUNS.values():
        call(words.split(), monkeypatch)
    found: dict[str, dict[str, Any]] = {}
    for changed in ("", *SPLITS):
        write("own.npz", 40, changed)
        found[changed] = {words: outcome(call(words.split(), monkeypatch)) for words in USED}
        if not changed:
            check_golden("splits", "", found[""])
    used = {words: {each for each in SPLITS if found[each][words] != found[""][words]} for words in USED}
    assert used == USED
