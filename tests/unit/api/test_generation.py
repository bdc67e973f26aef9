"""Images from Python are those of the command line, in the same files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import isopix
from isopix.core.measurement import Measurement
from isopix.data.dataset import load_dataset
from isopix.data.measurement import images_hash
from tests.unit.api.conftest import Copy, assert_same_files, cli
from tests.unit.data.refusal import refusal

CPU: dict[str, Any] = {"device": "cpu"}


def test_sample(copy_of: Copy) -> None:
    one, other = copy_of("ar", "one"), copy_of("ar", "other")
    cli("sample", one, "-n", 3, "--temperature", 0.9, "--top-k", 5, "--seed", 2, "--device", "cpu")
    found = isopix.sample(other, 3, temperature=0.9, top_k=5, seed=2, **CPU)
    assert_same_files(one / "samples", other / "samples")
    assert found.images.shape == (3, 3, 8, 8)
    assert found.path.is_file()


@pytest.mark.parametrize("data", [None, "digits"])
def test_complete(copy_of: Copy, data: str | None) -> None:
    one, other = copy_of("ar", "one"), copy_of("ar", "other")
    options = [] if data is None else ["--data", data]
    cli("complete", one, "-n", 2, "--rows", 3, "--each", 2, "--device", "cpu", *options)
    found = isopix.complete(other, count=2, rows=3, each=2, data=data, **CPU)
    assert_same_files(one / "samples", other / "samples")
    assert found.images.shape == (2, 2, 3, 8, 8)
    assert torch.equal(found.images[..., :3, :], found.inputs[:, None, :, :3].expand(-1, 2, -1, -1, -1))


def test_reconstruct(copy_of: Copy) -> None:
    one, other = copy_of("bert", "one"), copy_of("bert", "other")
    printed = cli("reconstruct", one, "-n", 2, "--split", "train", "--device", "cpu")
    found = isopix.reconstruct(other, count=2, split="train", **CPU)
    assert_same_files(one / "samples", other / "samples")
    assert found.accuracy == found.reconstruction.accuracy
    data = load_dataset(isopix.Run(other).recipe.data)
    count = f"2 of {data.train.available:,} images of digits (training split)"
    assert f", on {count}\n" in printed
    assert found.measurement.count == count
    assert found.measurement.images_hash == images_hash(data.train.select(torch.arange(2)))
    assert found.measurement.baselines == found.reconstruction.baselines != {}
    assert found.record["measurement"] == found.measurement.to_dict()


def test_the_record_of_given_images_names_no_dataset(pristine: Path) -> None:
    model, images = isopix.load(pristine / "bert", device="cpu"), np.zeros((3, 8, 8, 3), np.uint8)
    found = isopix.reconstruct(model, images).measurement
    assert (found.count, found.data, found.split, found.labels_seen) == ("3 given images", "", None, 0)
    assert Measurement.from_dict(found.to_dict()) == found


def test_images_can_be_given_and_a_model_leaves_no_file(pristine: Path, copy_of: Copy) -> None:
    run = copy_of("ar", "run")
    model = isopix.load(run, device="cpu")
    whole = isopix.complete(model, count=2, rows=4, each=1)
    assert whole.path is None
    again = isopix.complete(model, whole.inputs.numpy(), rows=4, each=1)
    assert torch.equal(again.images, whole.images)
    assert isopix.complete(run, whole.inputs, rows=4, each=1, **CPU).path.is_file()
    assert isopix.sample(model, 2).path is None
    masked = isopix.load(pristine / "bert", device="cpu")
    assert isopix.reconstruct(masked, whole.inputs).reconstruction.original.shape == (2, 3, 8, 8)


def test_what_a_model_cannot_do_is_refused(pristine: Path) -> None:
    assert "masked" in refusal(lambda: isopix.sample(pristine / "bert", **CPU))
    assert "autoregressive" in refusal(lambda: isopix.reconstruct(pristine / "ar", **CPU))
    assert "count is 0; allowed: 1 or more" in refusal(lambda: isopix.sample(pristine / "ar", 0))
    assert "999 images requested; digits has" in refusal(
        lambda: isopix.complete(pristine / "ar", count=999, **CPU)
    )


@pytest.mark.parametrize(("name", "verb"), [("bert", "reconstruct"), ("ar", "complete")])
def test_an_abandoned_decoder_is_refused_before_images_are_read(
    pristine: Path, tmp_path: Path, name: str, verb: str
) -> None:
    words = ["steps=1", "evaluate_every=1", "batch_size=8", "generative_weight=0", "patience=null"]
    out, message = tmp_path / name, f"{verb} needs the decoder, which does not fit this network"
    isopix.finetune(pristine / name, *words, out=out, limit=60, **CPU)
    assert message in refusal(lambda: getattr(isopix, verb)(out, data=tmp_path / "no such folder", **CPU))
    model, image = isopix.load(out, device="cpu"), torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    assert message in refusal(lambda: getattr(model, verb)(image))


def test_a_masked_run_completes_what_a_mask_hides(copy_of: Copy) -> None:
    one, other = copy_of("bert", "one"), copy_of("bert", "other")
    words = ("--mask", "rectangle:2,2,4,4", "--order", "random", "--iterations", 3, "--each", 2)
    printed = cli("complete", one, "-n", 2, "--device", "cpu", *words)
    found = isopix.complete(
        other, count=2, mask="rectangle:2,2,4,4", order="random", iterations=3, each=2, **CPU
    )
    assert_same_files(one / "samples", other / "samples")
    assert found.mask.sum((1, 2)).tolist() == [16, 16]
    assert found.log_likelihood.shape == (2, 2)
    assert found.record["likelihood"] == found.completions.likelihood == "path"
    assert found.record["log_likelihood"] == found.log_likelihood.tolist()
    assert {name: found.record[name] for name in ("mask", "hidden", "order", "iterations")} == {
        "mask": "rectangle:2,2,4,4",
        "hidden": 0.25,
        "order": "random",
        "iterations": 3,
    }
    assert f"{found.log_likelihood[0, 0]:,.1f}" in printed


def test_steps_leave_gradients_and_modes_alone_between_them(pristine: Path) -> None:
    model, images = isopix.load(pristine / "bert", device="cpu"), torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    mask = np.zeros((8, 8), bool)
    mask[2:6, 2:6] = True
    whole = model.complete(images, mask=mask, each=2, iterations=3)
    model.train()
    steps = []
    for step in isopix.complete_steps(model, images, mask=mask, each=2, iterations=3):
        assert torch.is_grad_enabled()
        assert model.network.training
        assert not step.images.is_inference()
        steps.append(step)
    assert len(steps) == 3
    assert torch.equal(steps[-1].images, whole.images)
    assert "rows 3 and mask half are both given" in refusal(
        lambda: isopix.complete_steps(model, images, 3, mask="half")
    )


def test_an_autoregressive_run_says_that_it_does_not_see_later_pixels(
    pristine: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, images = isopix.load(pristine / "ar", device="cpu"), torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    isopix.complete(model, images, mask="rows:3")
    assert "does not see them" not in caplog.text
    isopix.complete(model, images, mask="rectangle")
    assert "after it are kept, but the model does not see them" in caplog.text


def test_samples_are_shown_beside_the_nearest_training_images(copy_of: Copy) -> None:
    run = copy_of("ar", "run")
    found = isopix.sample(run, 5, nearest=True, **CPU)
    assert found.nearest is not None
    data = load_dataset(isopix.load(run, device="cpu").loaded.recipe.data)
    gaps = (found.images[:, None].double() - data.train.images[None].double()).square().mean((2, 3, 4)).sqrt()
    assert torch.allclose(found.nearest.distances.double(), gaps.min(1).values, atol=1e-4)
    assert torch.equal(found.nearest.images, data.train.images[gaps.min(1).indices])
    assert found.nearest.num_training == len(data.train)
    assert len(found.nearest.held_out) == min(256, len(data.test))
    record = found.nearest.record
    assert record["kind"] == "nearest"
    assert record["distances"] == pytest.approx(found.nearest.distances.tolist(), abs=1e-3)
    assert found.nearest.path.is_file()
    assert found.path.is_file()
    assert isopix.sample(run, 5, **CPU).nearest is None
