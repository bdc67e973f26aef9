"""Completions of the page are those of the command line, for what was painted or a shape."""

from pathlib import Path

import numpy as np
import pytest
import torch

import isopix
from isopix.studio.run import PAINTED, OpenedRun, hidden_part
from isopix.studio.views import completion_frames
from tests.unit.data.refusal import refusal


def drawn(frames: list) -> np.ndarray:
    return np.stack([tile.pixels for tile in frames[-1].tiles[2:]])


@pytest.mark.parametrize("name", ["ar", "bert"])
def test_a_seed_gives_the_pictures_of_the_command(
    opened: dict[str, OpenedRun], pristine: Path, name: str
) -> None:
    run = opened[name]
    settings = {"each": 2, "temperature": 0.9, "top_k": 5, "seed": 3, "order": "inward", "iterations": 4}
    frames = list(completion_frames(run, run.images[:1], "half", settings))
    assert [frame.done for frame in frames] == sorted(frame.done for frame in frames)
    assert frames[-1].done == frames[-1].total
    options = {} if name == "ar" else {"order": "inward", "iterations": 4}
    same = {"mask": "half", "each": 2, "temperature": 0.9, "top_k": 5, "seed": 3, "device": "cpu"}
    found = isopix.complete(isopix.load(pristine / name, device="cpu"), run.images[:1], **same, **options)
    expected = found.images[0].permute(0, 2, 3, 1).numpy()
    assert np.array_equal(drawn(frames), expected)
    nats = [f"{float(each):,.1f} nats".replace("-", "\N{MINUS SIGN}") for each in found.log_likelihood[0]]
    assert [tile.caption for tile in frames[-1].tiles[2:]] == nats


def test_what_is_painted_is_hidden(opened: dict[str, OpenedRun]) -> None:
    layer = np.zeros((400, 400, 4), dtype=np.uint8)
    layer[110:140, 260:301, 3] = 255  # rows 2, columns 5 to 6 of 8
    mask = hidden_part(PAINTED, [layer], (8, 8))
    expected = torch.zeros(8, 8, dtype=torch.bool)
    expected[2, 5:7] = True
    assert torch.equal(torch.as_tensor(mask), expected)
    run = opened["bert"]
    frames = list(completion_frames(run, run.images[:1], mask, {"each": 1}))
    assert frames[-1].total == 2  # positions, each a pass of its own
    changed = (frames[-1].tiles[2].pixels != frames[-1].tiles[1].pixels).any(-1)
    assert not changed[~expected.numpy()].any()


def test_an_empty_canvas_is_refused() -> None:
    layer = np.zeros((40, 40, 4), dtype=np.uint8)
    assert "nothing is painted yet" in refusal(lambda: hidden_part(PAINTED, [layer], (8, 8)))
    assert hidden_part("Lower half", [layer], (8, 8)) == "half"


def test_an_autoregressive_model_says_that_it_does_not_see_later_pixels(opened: dict[str, OpenedRun]) -> None:
    notes = []
    for name, mask in (("ar", "half"), ("ar", "rectangle"), ("bert", "rectangle")):
        frames = completion_frames(opened[name], opened[name].images[:1], mask, {"each": 1})
        notes.append("does not see them" in next(frames).note)
    assert notes == [False, True, False]
