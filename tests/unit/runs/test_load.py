"""Which checkpoint is meant, and what a checkpoint must hold to become a network."""

from pathlib import Path

import pytest
import torch

from isopix.core.config import to_dict
from isopix.core.device import runtime_environment
from isopix.recipes import registry
from isopix.runs.load import load_run, newest_checkpoint
from isopix.storage import checkpoint
from isopix.storage.run_folder import RunFolder
from tests.run_folders import create_run
from tests.unit.data.refusal import refusal

CPU = torch.device("cpu")
RECIPE = registry.resolve("igpt.digits", assignments=["depth=1", "width=16"]).recipe


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """With two checkpoints."""
    run = create_run(tmp_path / "run")
    run.recipe.write_text("{}")
    for step in (3, 20):
        save(checkpoint.step_folder(run.checkpoints, step), step=step)
    return run


def save(folder: Path, *, step: int = 0, without: str = "", **state: object) -> Path:
    grays = torch.linspace(0, 255, 17)[:, None].expand(17, 3).contiguous()
    net = RECIPE.build(RECIPE.model.codec.build(RECIPE.grid, grays))
    tensors = {name: tensor for name, tensor in net.tensors().items() if name != without}
    told = {"step": step, "codec": net.codec.fingerprint(), "data": ""} | state
    records = {"recipe": to_dict(RECIPE), "state": told, "environment": runtime_environment(CPU)}
    checkpoint.save_checkpoint(folder, {"model": tensors}, records)
    return folder


def test_the_newest_is_meant_intact_or_not(run: RunFolder) -> None:
    last = checkpoint.step_folder(run.checkpoints, 20)
    (last / "model.safetensors").write_bytes(b"")
    assert newest_checkpoint(run.path) == newest_checkpoint(last) == last
    assert "model.safetensors has 0 bytes" in refusal(checkpoint.verify_files, last)
    assert load_run(run.path, device=CPU).step == 3


def test_a_run_that_has_none_says_so(tmp_path: Path) -> None:
    run = create_run(tmp_path / "run")
    run.recipe.write_text("{}")
    for meant in (newest_checkpoint, lambda path: load_run(path, device=CPU)):
        assert "has no checkpoint; start it again" in refusal(meant, run.path)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"codec": "0" * 64}, "is not palette 000000000000"),
        ({"without": "codec.color_bits"}, "no 'codec.color_bits'"),
        ({"without": "head.project.weight"}, "'head.project.weight' is missing from the checkpoint"),
    ],
)
def test_a_checkpoint_that_does_not_hold_the_whole_network_is_refused(
    tmp_path: Path, wrong: dict[str, str], line: str
) -> None:
    folder = save(tmp_path / "it", **wrong)
    assert line in refusal(lambda: load_run(folder, device=CPU))
