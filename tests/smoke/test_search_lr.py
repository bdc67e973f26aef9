"""`isopix search-lr`."""

import json
import shlex
from pathlib import Path

from tests.smoke.conftest import Run, done

WORDS = ["depth=1", "width=16", "steps=24", "batch_size=16", "log_every=1", "evaluate_images=40"]
LR_RANGE = ["--max-lr", "3", "--min-lr", "0.01"]


def test_the_table_has_every_status_and_the_suggested_command_runs(isopix: Run) -> None:
    words = ["search-lr", "igpt.digits", "--out", "lr", "--limit", "90", *WORDS, *LR_RANGE]
    out = done(isopix(*words))
    for text in ("3.0", "diverged at step", "1.0", "completed", "not needed", "*"):
        assert text in out
    (line,) = [line for line in out.splitlines() if line.startswith("pretrain with: ")]
    numbers = done(isopix(*words, "--json"))
    found, kept = json.loads(numbers), json.loads(Path("lr/lr_search.json").read_text())
    assert all(found[name] == kept[name] for name in ("best_lr", "finished", "lrs", "trials"))
    assert line == f"pretrain with: {found['command']}"
    assert f"lr={found['best_lr']}" in line
    done(isopix(*shlex.split(found["command"])[1:], "steps=2"))


def test_a_loss_still_falling_at_the_smallest_learning_rate_is_reported(isopix: Run) -> None:
    code, out, _ = isopix(
        "search-lr", "igpt.digits", "--out", "lr", *WORDS, "--max-lr", "0.03", "--min-lr", "0.03"
    )
    assert code == 0
    assert "the loss was still falling at the smallest learning rate" in out
    assert "the best learning rate is the largest that was tried; search with a larger --max-lr, too" in out
