"""Parts that show what is predicted are refused before training, and no others."""

from pathlib import Path
from typing import Any

import pytest
import torch

from isopix.core.registry import kinds, load_plugin
from isopix.model.heads import LinearHead
from isopix.model.masking import ShiftRightMasking, ZeroMasking, sum_components
from isopix.model.stems.pixels import TokenEmbedding
from isopix.objectives.objectives import Autoregressive, Masked
from isopix.recipes.recipe import Recipe
from isopix.runs.visibility import check_visibility
from tests.laws import cases
from tests.registry import restored_registry
from tests.tiny_runs import TINY, cli

EXAMPLE = Path(__file__).parents[3] / "examples" / "extend" / "decay_block.py"
ORDER, MASKED = (cases.CASES[0].updated(objective=each) for each in (Autoregressive(), Masked()))


def check(recipe: Recipe) -> None:
    check_visibility(recipe, cases.codec(recipe), torch.device("cpu"))


@pytest.mark.parametrize("recipe", cases.CASES, ids=cases.title)
def test_no_network_of_the_package_is_refused(recipe: Recipe) -> None:
    check(recipe)


CAUSAL, BRANCH, AVERAGE = "self.distance < 0", "self.down(", "scores.softmax(-1) @ "
FOURIER = """torch.fft.irfft(torch.fft.rfft(torch.ones(36, 1), 72, 0) * torch.fft.rfft(
            self.up(self.norm1(tokens)), 72, 1), 72, 1)[:, :36] + 0 * """
BLOCKS = {
    "all": {"if self.causal": "if False"},
    "gate at zero": {"if self.causal": "if False", BRANCH: f"self.decay * {BRANCH}"},
    "next but one": {CAUSAL: f"({CAUSAL}) & (self.distance != -2)"},
    "Fourier transform": {AVERAGE: FOURIER},
}


@pytest.mark.parametrize("mix", BLOCKS)
def test_a_block_that_reads_later_positions_is_refused_but_not_rounding(mix: str, tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    for old, new in BLOCKS[mix].items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "own.py").write_text(text)
    with restored_registry():
        load_plugin(tmp_path / "own.py")
        block = kinds("block")["decay"]()
        check(MASKED.updated(block=block))
        if mix == "Fourier transform":
            check(ORDER.updated(block=block))
            return
        with pytest.raises(ValueError, match=r"model.block=decay .* depends on the same or later pixels"):
            check(ORDER.updated(block=block))


PLANTS: dict[str, tuple[type, Recipe, Any]] = {
    "model.stem": (TokenEmbedding, ORDER, lambda own, *given: [each + each.roll(1, 1) for each in own]),
    "model.stem=": (TokenEmbedding, MASKED, lambda own, *given: [each + each.roll(1, 1) for each in own]),
    "objective.corruption": (ZeroMasking, MASKED, lambda own, components, mask: sum_components(components)),
    "objective.corruption=": (ShiftRightMasking, ORDER, lambda own, components, mask: own.roll(-1, 1)),
    "model.head": (LinearHead, ORDER, lambda own, tokens: own + own.roll(-1, 1)),
}


@pytest.mark.parametrize("setting", PLANTS)
def test_another_part_that_shows_what_is_predicted_is_refused(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, recipe, changed = PLANTS[setting]
    forward = module.forward  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "forward", lambda self, *given: changed(forward(self, *given), *given))
    with pytest.raises(ValueError, match=setting):
        check(recipe)


def test_a_leak_starts_no_run_and_resumes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, words = (
        tmp_path / "run",
        ("pretrain", "igpt.digits", *TINY, "--limit", 60, "--device", "cpu", "--out"),
    )
    cli(*words, run)
    monkeypatch.setattr(ShiftRightMasking, "forward", lambda self, parts, mask: sum_components(parts))
    cli(*words, tmp_path / "new")
    cli("resume", tmp_path / "run", "--device", "cpu")
    assert capsys.readouterr().err.count("isopix: objective.corruption=shift_right") == 2
    assert not (tmp_path / "new").exists()
