"""The headline says the numbers, and which control does better."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isopix.probe.knn import Knn
from isopix.probe.results import Protocol
from isopix.recipes import registry, tiny
from isopix.report import headline as headlines
from isopix.report.load_run import gather
from tests.unit.report.cases import bare, evidence, probe, records, whole


def headline(tmp_path: Path, **numbers: Any) -> str:
    found = evidence(**numbers)
    return headlines.headline({"run": gather(whole(tmp_path / "run", found=found))}).replace("\u00a0", " ")


def test_it_tells_architecture_images_loss_layer_and_controls(tmp_path: Path) -> None:
    assert headline(tmp_path) == (
        "4 blocks of width 64, shown 800 images and trained to 1.80 nats a pixel, tell the class of "
        "50.0 % of test images at layer 1; untrained 30.0 %; raw pixels 40.0 %."
    )


def test_raw_pixels_that_win_are_said_to_do_better(tmp_path: Path) -> None:
    assert "; raw pixels do better, 97.8 %." in headline(tmp_path, pixels=0.978)


def test_an_untrained_network_that_wins_is_said_to_do_better(tmp_path: Path) -> None:
    assert "; untrained does better, 60.0 %" in headline(tmp_path, untrained=(0.6, 0.1))


def test_a_difference_within_the_intervals_is_not_called_one(tmp_path: Path) -> None:
    assert "raw pixels 51.0 %, no clear difference" in headline(tmp_path, pixels=0.51)
    assert headlines.clearly({"test": 0.5, "low": 0.47}, {"test": 0.455, "high": 0.495}) is False
    assert headlines.clearly({"test": 0.5, "low": 0.47}, {"test": 0.445, "high": 0.485}) is True


def test_several_runs_share_a_sentence(tmp_path: Path) -> None:
    runs = {
        "one": gather(whole(tmp_path / "one", found=evidence(pixels=0.45))),
        "two": gather(whole(tmp_path / "two", found=evidence(trained=(0.2, 0.3), pixels=0.45))),
    }
    assert headlines.headline(runs).replace("\u00a0", " ") == (
        "The best layers tell the class of 50.0 % (one) and 30.0 % (two) of test images; untrained 30.0 %, "
        "not clearly different from two; raw pixels 45.0 %, better than two."
    )


def test_a_reading_that_is_not_the_papers_is_told_in_the_headline(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    (run.probes / "probe.json").unlink()
    probe(run, replace(evidence(), protocol=Protocol(stream="h", pool="last")))
    assert "at layer 1 (stream h, pool last); untrained" in headlines.headline({"run": gather(run)})


@pytest.mark.parametrize(
    "name",
    ["stream", "pool", "reading", "strengths", "method", "masks", "layers", "limit", "images"],
)
def test_probes_that_differ_are_not_put_into_one_sentence(tmp_path: Path, name: str) -> None:
    other: dict[str, Any] = {
        "stream": "h",
        "pool": "last",
        "reading": "huggingface",
        "strengths": (1e-3, 1.0),
        "method": Knn(),
        "masks": 5,
        "layers": 2,
    }
    runs = [whole(tmp_path / each) for each in ("one", "two")]
    if name in other:
        probe(runs[1], replace(evidence(), protocol=Protocol(**{name: other[name]})))
    elif name == "limit":
        probe(runs[1], evidence(), limit=400)
    else:
        for number, run in enumerate(runs):
            probe(run, evidence(), images_digest=str(number))
    told = headlines.headline({run.path.name: gather(run) for run in runs})
    assert re.fullmatch(r"2 runs, probed with different [\w ]+, which are not to be compared\.", told)


def test_probes_of_equal_images_are_compared_whatever_else_they_drew(tmp_path: Path) -> None:
    runs = [whole(tmp_path / each) for each in ("one", "two")]
    for seed, run in enumerate(runs):
        probe(
            run, replace(evidence(), protocol=Protocol(seed=seed)), images_digest="equal", data=f"name {seed}"
        )
    assert headlines.headline({run.path.name: gather(run) for run in runs}).startswith("The best layers tell")


def why(tmp_path: Path, *, train: int | None = 1000, loss: float = 1.8, **numbers: Any) -> str:
    run = whole(
        tmp_path / "run", found=evidence(**{"trained": (0.2, 0.31), "untrained": (0.3, 0.2)} | numbers)
    )
    lines = [*records()[:-1], {**records()[-1], "loss_nats": loss}]
    run.log.write_text("".join(json.dumps(each) + "\n" for each in lines))
    if train:
        run.environment.write_text(json.dumps({"images": {"train": train}}))
    return headlines.why(gather(run)).replace("\u00a0", " ")


def test_a_network_clearly_above_its_untrained_self_needs_no_reason(tmp_path: Path) -> None:
    assert headlines.why(gather(whole(tmp_path / "run"))) == ""
    assert headlines.why(gather(bare(tmp_path / "bare"))) == ""


START = "The best layer is not clearly above that of the untrained network"


def test_a_loss_at_chance_is_the_likely_reason(tmp_path: Path) -> None:
    reason = "after 800 images, 0.8 epochs, the loss is still near chance, 2.80 of 2.83 nats"
    assert why(tmp_path, loss=2.8, half=0.01) == f"{START}; likely reasons: {reason}."


def test_a_loss_that_still_fell_is_the_likely_reason(tmp_path: Path) -> None:
    reason = "the loss was still falling, 2.05 to 1.85 nats from the third quarter to the last"
    assert why(tmp_path, half=0.01, train=None) == f"{START}; likely reasons: after 800 images, {reason}."


def test_pixels_that_need_no_network_and_few_test_images_are_reasons(tmp_path: Path) -> None:
    told = why(tmp_path, pixels=0.97, half=0.05)
    assert "; raw pixels alone are nearly separable, 97.0 %; 180 test images leave ±5.0 points." in told


def test_a_reason_that_no_number_gives_is_not_made_up(tmp_path: Path) -> None:
    run = whole(tmp_path / "run", found=evidence(trained=(0.2,), untrained=(0.2,), half=0.01))
    run.log.write_text(json.dumps(records()[-1]) + "\n")
    assert headlines.why(gather(run)) == f"{START}, and no number of this run says why."


def test_a_bad_line_of_the_log_does_not_hide_the_images_shown(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    run.log.write_text("no record\n" + run.log.read_text())
    assert "shown 800 images" in headlines.headline({"run": gather(run)})
    run.log.write_text("no record\n")
    batch = tiny.digits().train.batch_size
    assert f"shown {100 * batch:,} images" in headlines.headline({"run": gather(run)})


def test_an_unmeasured_run_claims_nothing(tmp_path: Path) -> None:
    run = gather(bare(tmp_path / "run"))
    assert (
        headlines.headline({"run": run})
        == "4 blocks of width 64, shown 0 images, have not been measured yet."
    )


def test_the_test_loss_goes_before_the_validation_loss(tmp_path: Path) -> None:
    assert headlines.held_out(gather(whole(tmp_path / "run"))) == headlines.HeldOut(1.8, 64, "test")


@pytest.mark.parametrize(
    ("name", "levels"), [("patchformer.tiny", 4), ("vit.tiny", 512), ("igpt.tiny", 512), ("igpt.digits", 17)]
)
def test_an_untrained_network_knows_every_level_alike(tmp_path: Path, name: str, levels: int) -> None:
    assert headlines.uniform(gather(bare(tmp_path / "run", registry.find(name)))) == levels
