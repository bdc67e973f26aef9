"""The headline says the numbers, and which control does better."""

from pathlib import Path
from typing import Any

from isopix.report import finding
from isopix.report.gather import gather
from tests.unit.report.cases import bare, evidence, whole


def headline(tmp_path: Path, **numbers: Any) -> str:
    found = evidence(**numbers)
    return finding.headline({"run": gather(whole(tmp_path / "run", found=found))}).replace("\u00a0", " ")


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
    assert finding.clearly({"test": 0.5, "low": 0.47}, {"test": 0.455, "high": 0.495}) is False
    assert finding.clearly({"test": 0.5, "low": 0.47}, {"test": 0.445, "high": 0.485}) is True


def test_several_runs_share_a_sentence(tmp_path: Path) -> None:
    runs = {
        "one": gather(whole(tmp_path / "one", found=evidence(pixels=0.45))),
        "two": gather(whole(tmp_path / "two", found=evidence(trained=(0.2, 0.3), pixels=0.45))),
    }
    assert finding.headline(runs).replace("\u00a0", " ") == (
        "The best layers tell the class of 50.0 % (one) and 30.0 % (two) of test images; untrained 30.0 %, "
        "not clearly different from two; raw pixels 45.0 %, better than two."
    )


def test_an_unmeasured_run_claims_nothing(tmp_path: Path) -> None:
    run = gather(bare(tmp_path / "run"))
    assert (
        finding.headline({"run": run}) == "4 blocks of width 64, shown 0 images, have not been measured yet."
    )


def test_the_test_loss_goes_before_the_validation_loss(tmp_path: Path) -> None:
    assert finding.held_out(gather(whole(tmp_path / "run"))) == finding.HeldOut(1.8, 64, "test")
