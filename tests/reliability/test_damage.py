"""Checkpoints with spoilt files: which are noticed, and which of them pruning keeps."""

import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isopix.storage import checkpoint

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a folder where many small files cost little
PARTS = ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")


def state(step):
    values = torch.randn(64, generator=torch.Generator().manual_seed(step))
    return {"model": {"weight": values}, "optimizer": {"moment": -values}}


def save(checkpoints, step):
    folder = checkpoint.step_folder(checkpoints, step)
    checkpoint.save_checkpoint(folder, state(step), {"state": {"step": step, "seconds": 0.5}})
    return folder


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two good checkpoints, to be copied and spoilt."""
    folder = tmp_path_factory.mktemp("pair")
    save(folder, 1)
    save(folder, 2)
    return folder


def flip_a_bit(path, chance):
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def swap_with_neighbour(path, chance):
    neighbour = path.with_name(chance.choice([name for name in PARTS if name != path.name]))
    shutil.copy(neighbour, path)


def link_to_a_device(path, chance):
    path.unlink()
    path.symlink_to("/dev/zero")


OTHER_JSON = ["", "{", "[]", "null", "{}", '{"step": 3}', "[" * 100_000, "\x00" * 64]
MUTATIONS = [
    lambda path, chance: os.truncate(path, chance.randrange(path.stat().st_size)),
    flip_a_bit,
    lambda path, chance: path.write_bytes(path.read_bytes() + chance.randbytes(chance.randint(1, 9))),
    lambda path, chance: shutil.copy(path.parent.with_name("step-00000001") / path.name, path),
    swap_with_neighbour,
    lambda path, chance: path.unlink(),
    lambda path, chance: path.write_text(chance.choice(OTHER_JSON)),
    lambda path, chance: (path.unlink(), path.mkdir()),
    link_to_a_device,
]


def spoil(pair, folder, seed):
    """Spoil one file of the newer checkpoint: it must be named, and the older one taken."""
    chance = random.Random(seed)
    mutate, name = MUTATIONS[seed % len(MUTATIONS)], chance.choice(PARTS)
    shutil.copytree(pair, folder)
    victim = folder / "step-00000002"
    mutate(victim / name, chance)
    found, damaged = checkpoint.load_latest(folder, checkpoint.load_checkpoint)
    case = f"mutation {seed % len(MUTATIONS)} of {name} (seed {seed})"
    assert found is not None, case
    assert found.records["state"]["step"] == 1, f"{case} was not noticed"
    assert [error.path for error in damaged] == [victim], case
    reason = damaged[0].reason
    # A spoilt manifest may show as a file that it describes wrongly.
    suspects = PARTS if name == "manifest.json" else (name,)
    assert any(part in reason for part in suspects), f"{case}: {reason}"
    assert "\n" not in reason, case
    shutil.rmtree(folder)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seeds", [range(300), pytest.param(range(300, 10_000), marks=pytest.mark.slow)])
def test_whatever_happens_to_a_file_is_noticed_and_the_previous_checkpoint_is_taken(pair, seeds):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        for seed in seeds:
            spoil(pair, Path(folder) / "spoilt", seed)


def replaced(path, become):
    shutil.rmtree(path)
    become(path)


DAMAGES = {
    "link": lambda path: replaced(path, lambda path: path.symlink_to("nowhere")),
    "file": lambda path: replaced(path, Path.touch),
    "empty": lambda path: replaced(path, Path.mkdir),
    "cut off": lambda path: (path / "manifest.json").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("step", [1, 4, 6])
def test_training_goes_on_beside_whatever_has_the_name_of_a_step(tmp_path, damage, step):
    """Instead of an old checkpoint, of the next one, or of a later one."""
    for each in {2, 3, step}:
        save(tmp_path, each)
    DAMAGES[damage](checkpoint.step_folder(tmp_path, step))
    assert len(checkpoint.load_latest(tmp_path, checkpoint.load_checkpoint)[1]) == (step > 3)
    save(tmp_path, 4)
    checkpoint.prune(tmp_path)
    assert checkpoint.load_latest(tmp_path, checkpoint.load_checkpoint)[0].records["state"]["step"] == 4
    left = [checkpoint.step_folder(tmp_path, each) for each in {3, 4, max(step, 4)}]
    assert {*tmp_path.iterdir()} == {*left}


@settings(max_examples=100, deadline=None, database=None, derandomize=True)
@given(
    history=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=8), keep=st.integers(1, 3)
)
def test_pruning_never_deletes_the_last_good_ones(pair, history, keep):
    """Save, spoil where the history says so, prune: after each step the newest good ones must be there."""
    template = pair / "step-00000001"
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        checkpoints, good = Path(name), []
        for step, (damaged, old) in enumerate(history, 1):
            folder = checkpoint.step_folder(checkpoints, step)
            shutil.copytree(template, folder)
            if damaged:
                flip_a_bit(folder / "model.safetensors", random.Random(step))
            else:
                good.append(step)
            if old and len(good) > 1:  # time gnaws at an older one
                victim = checkpoint.step_folder(checkpoints, good.pop(-2))
                flip_a_bit(victim / "state.json", random.Random(step))
            checkpoint.prune(checkpoints, keep)
            good = good[-keep:]
            for kept in good:
                checkpoint.load_checkpoint(checkpoint.step_folder(checkpoints, kept))
            if len(good) == keep:
                assert min(path.name for path in checkpoints.iterdir()) == f"step-{good[0]:08d}"
