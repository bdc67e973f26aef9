"""A run that `isopix finetune` refits on validation images works with the other commands."""

import re
from pathlib import Path

import pytest

from tests.smoke.conftest import QUICK, Run, done

pytestmark = pytest.mark.usefixtures("quick_probes", "quick_figures")

TUNE = ["steps=4", "batch_size=8", "evaluate_every=2", "log_every=1", "data.augment=none"]
TUNE += ["num_test_images=20"]
REFIT = ["finetune", "run", "--limit", "100", "--out", "ft", "--refit-on-validation", *TUNE]


@pytest.fixture
def trained(isopix: Run) -> Run:
    done(isopix("pretrain", "igpt.digits", *QUICK, "--out", "run"))
    return isopix


def test_a_run_refitted_on_validation_works_with_every_command(trained: Run) -> None:
    longer = {"steps=4": "steps=40", "evaluate_every=2": "evaluate_every=5"}
    words = [*(longer.get(word, word) for word in REFIT), "generative_weight=0.1", "lr=0.05"]
    out = done(trained(*words))
    assert "igpt.digits from step 2 of run on digits, 40 steps, batch size 8" in out
    assert re.search(r"step \d+ selected on validation", out)
    assert out.count("test total loss") == 1
    log = Path("ft/log.jsonl").read_text()
    probe = ["probe", "ft", "--limit", "60", "--method", "ridge"]
    for again in (words, probe, ["sample", "ft", "-n", "2"], ["report", "ft"]):
        done(trained(*again))
    code, _, err = trained("resume", "ft")
    assert (code, err) == (0, "ft has all its steps (30); nothing is left to train\n")
    assert Path("ft/log.jsonl").read_text() == log
    known = "the run was refitted on training and validation images"
    assert known in Path("ft/report.html").read_text()


def test_a_refit_without_a_selected_step_leaves_no_run(trained: Run) -> None:
    assert trained(*REFIT, "generative_weight=0", "lr=1e-60")[0] == 1  # no step is better than none
    for name in ("resume", "probe", "report", "evaluate"):
        code, out, err = trained(name, "ft")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "ft has no recipe.json; ft/selection selects" in err
