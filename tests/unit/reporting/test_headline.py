"""The headline gives the metrics, and which baselines are better."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isopix.core.config import to_dict
from isopix.probing.config import ProbeConfig
from isopix.probing.knn import KnnProbe
from isopix.probing.results import Gain
from isopix.recipes import igpt, registry
from isopix.reporting import headline as headlines
from isopix.reporting.baselines import baseline_rows
from isopix.reporting.metrics import MeanLoss, format_epochs, held_out_loss, images_seen, uniform_classes
from isopix.reporting.run_reader import read_run
from tests.unit.reporting.cases import bare, baselines, evidence, measurement, probe, records, whole


def headline(tmp_path: Path, **numbers: Any) -> str:
    found = evidence(**numbers)
    return headlines.headline({"run": read_run(whole(tmp_path / "run", found=found))}).replace("\u00a0", " ")


def test_it_gives_accuracy_layer_baselines_and_loss(tmp_path: Path) -> None:
    assert headline(tmp_path) == (
        "Linear-probe test accuracy: 50.0 % at layer 1. Baselines: untrained 30.0 %; raw pixels 40.0 %."
        " Test loss: 1.80 nats per pixel; uniform prediction 2.83."
    )


def test_it_gives_the_gain_over_the_best_baseline(tmp_path: Path) -> None:
    one = replace(evidence(), gain=Gain("raw pixels", 0.1, (0.08, 0.125)))
    other = replace(evidence(), gain=Gain("untrained", -0.02, (-0.04, 0.01)))
    runs = {
        name: read_run(whole(tmp_path / name, found=found))
        for name, found in (("one", one), ("two", other), ("three", evidence()))
    }
    text = headlines.headline({"one": runs["one"]}).replace("\u00a0", " ")
    assert " Gain over the best baseline, with 95 % interval: +10.0 points (+8.0 to +12.5) over raw p" in text
    text = headlines.headline({"two": runs["two"]}).replace("\u00a0", " ")
    assert (
        " Difference from the best baseline, with 95 % interval: −2.0 points (−4.0 to +1.0) from unt" in text
    )
    text = headlines.headline({name: runs[name] for name in ("two", "one")}).replace("\u00a0", " ")
    assert text.startswith(
        "Highest linear-probe test accuracy of 2 runs: 50.0 % (two), −2.0 points (−4.0 to +1.0) from"
        " untrained."
    ), "the first of equals"


def test_better_baselines_are_marked(tmp_path: Path) -> None:
    assert "; raw pixels 97.8 % (better)." in headline(tmp_path / "a", pixels=0.978)
    assert ": untrained 60.0 % (better);" in headline(tmp_path / "b", untrained=(0.6, 0.1))


def test_a_difference_within_the_intervals_is_not_significant(tmp_path: Path) -> None:
    assert "raw pixels 51.0 % (not significantly different)" in headline(tmp_path, pixels=0.51)
    for pixels, sign in ((0.47, 1), (0.473, 0), (0.527, 0), (0.53, -1)):
        found = evidence(trained=(0.5, 0.5), pixels=pixels)  # half-widths of 0.02: 0.0283 is significant
        assert headlines.advantage(found, "raw pixels") == sign, pixels


@pytest.mark.parametrize(
    ("interval", "mark"),
    [((0.001, 0.02), ""), ((-0.001, 0.02), " (not significantly different)"), ((-0.03, -0.01), " (better)")],
)
def test_the_paired_gain_decides(tmp_path: Path, interval: tuple[float, float], mark: str) -> None:
    """The unpaired intervals of these accuracies overlap."""
    found = replace(evidence(pixels=0.49), gain=Gain("raw pixels", 0.01, interval))
    run = read_run(whole(tmp_path / "run", found=found))
    assert (
        headlines.headline({"run": run})
        .replace("\u00a0", " ")
        .partition("raw pixels 49.0 %")[2]
        .startswith(f"{mark}.")
    )


def test_a_gain_over_the_best_baseline_leaves_nothing_to_diagnose(tmp_path: Path) -> None:
    assert diagnosis(tmp_path / "unpaired")
    found = replace(
        evidence(trained=(0.2, 0.31), untrained=(0.3, 0.2)), gain=Gain("raw pixels", 0.01, (0.005, 0.02))
    )
    assert headlines.diagnosis(read_run(whole(tmp_path / "run", found=found))) == ""


def test_several_runs_share_a_headline(tmp_path: Path) -> None:
    runs = {
        "one": read_run(whole(tmp_path / "one", found=evidence(pixels=0.45))),
        "two": read_run(whole(tmp_path / "two", found=evidence(trained=(0.2, 0.3), pixels=0.45))),
    }
    assert headlines.headline(runs).replace("\u00a0", " ") == (
        "Highest linear-probe test accuracy of 2 runs: 50.0 % (one). Baselines: untrained not significantly"
        " different from two; raw pixels better than two."
    )
    better = {name: read_run(whole(tmp_path / name, found=evidence())) for name in ("three", "four")}
    assert headlines.headline(better).replace("\u00a0", " ") == (
        "Highest linear-probe test accuracy of 2 runs: 50.0 % (three). All are significantly better than"
        " untrained and raw pixels."
    )
    unprobed = read_run(bare(tmp_path / "bare"))
    assert headlines.headline({**better, "bare": unprobed}).startswith(
        "Highest linear-probe test accuracy of 2 probed runs: "
    )
    one = headlines.headline({"three": better["three"], "bare": unprobed}).replace("\u00a0", " ")
    assert one.startswith("Linear-probe test accuracy: 50.0 % (three). All are ")


def test_a_protocol_other_than_the_papers_is_in_the_headline(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    (run.probes / "probe.json").unlink()
    probe(run, replace(evidence(), config=ProbeConfig(features="residual", pool="last")))
    assert "test accuracy (last position, residual stream): 50" in headlines.headline({"run": read_run(run)})
    probe(run, replace(evidence(), method=to_dict(KnnProbe()), label="k-nearest neighbors"))
    assert headlines.headline({"run": read_run(run)}).startswith(
        "Probe test accuracy (k-nearest neighbors): "
    )


@pytest.mark.parametrize(
    "name",
    ["features", "pool", "start_token", "method", "mask_ensemble", "layer", "images"],
)
def test_probes_that_differ_are_not_compared(tmp_path: Path, name: str) -> None:
    other: dict[str, Any] = {
        "features": "residual",
        "pool": "last",
        "start_token": False,
        "method": "knn",
        "mask_ensemble": 5,
        "layer": 2,
    }
    runs = [whole(tmp_path / each) for each in ("one", "two")]
    if name in other:
        probe(runs[1], replace(evidence(), config=ProbeConfig(**{"pool": "mean", name: other[name]})))
    else:
        for number, run in enumerate(runs):
            probe(run, replace(evidence(), measurement=measurement(images_hash=str(number))))
    text = headlines.headline({run.path.name: read_run(run) for run in runs})
    assert re.fullmatch(r"2 runs whose probes cannot be compared: they differ in \w+\.", text)


def test_probes_of_equal_images_are_compared_whatever_else_they_drew(tmp_path: Path) -> None:
    runs = [whole(tmp_path / each) for each in ("one", "two")]
    for seed, run in enumerate(runs):
        probe(
            run,
            replace(
                evidence(),
                config=ProbeConfig(pool="mean", seed=seed),
                measurement=measurement(data=f"name {seed}"),
            ),
            data=f"name {seed}",
        )
    assert headlines.headline({run.path.name: read_run(run) for run in runs}).startswith(
        "Highest linear-probe test accuracy of 2 runs: 50.0"
    )


def diagnosis(tmp_path: Path, *, train: int | None = 1000, loss: float = 1.8, **numbers: Any) -> str:
    run = whole(
        tmp_path / "run", found=evidence(**{"trained": (0.2, 0.31), "untrained": (0.3, 0.2)} | numbers)
    )
    lines = [*records()[:-1], {**records()[-1], "loss_nats": loss}]
    run.log.write_text("".join(json.dumps(each) + "\n" for each in lines))
    if train:
        run.environment.write_text(json.dumps({"images": {"train": train}}))
    return headlines.diagnosis(read_run(run)).replace("\u00a0", " ")


def test_a_network_better_than_its_untrained_baseline_has_no_diagnosis(tmp_path: Path) -> None:
    assert headlines.diagnosis(read_run(whole(tmp_path / "run"))) == ""
    assert headlines.diagnosis(read_run(bare(tmp_path / "bare"))) == ""


START = "No layer is significantly better than the untrained network"


def test_a_loss_stands_beside_the_best_learning_free_baseline(tmp_path: Path) -> None:
    run = read_run(whole(tmp_path / "run"))
    run = replace(run, log=[baselines(), *run.log], probes=[])
    assert headlines.headline({"run": run}) == (
        "Test loss: 1.80 nats per pixel; uniform prediction 2.83;"
        " best learning-free baseline 1.77 (top neighbor)."
    )
    [row] = [each for each in baseline_rows({"run": run}) if each.name == "top neighbor"]
    assert (row.kind, row.description, row.loss) == ("baseline", "learning-free", 1.766)


def test_a_loss_of_a_uniform_prediction_is_a_reason(tmp_path: Path) -> None:
    reason = "after 800 images (0.8 epochs) the loss is near that of a uniform prediction, 2.80 of 2.83 nats"
    assert diagnosis(tmp_path, loss=2.8, half=0.01) == f"{START}. Possible reasons: {reason}."


def test_a_loss_that_still_falls_is_a_reason(tmp_path: Path) -> None:
    reason = "the training loss still fell, from 2.05 to 1.85 nats between the third and the last quarter"
    assert (
        diagnosis(tmp_path, half=0.01, train=None) == f"{START}. Possible reasons: after 800 images {reason}."
    )


def test_separable_pixels_and_few_test_images_are_reasons(tmp_path: Path) -> None:
    text = diagnosis(tmp_path, pixels=0.97, half=0.05)
    assert "; raw pixels alone reach 97.0 %; 180 test images (±5.0 points)." in text


def test_no_reason_is_made_up(tmp_path: Path) -> None:
    run = whole(tmp_path / "run", found=evidence(trained=(0.2,), untrained=(0.2,), half=0.01))
    run.log.write_text(json.dumps(records()[-1]) + "\n")
    assert headlines.diagnosis(read_run(run)) == f"{START}; no reason found."


def test_a_bad_line_of_the_log_does_not_hide_the_images_seen(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    run.log.write_text("no record\n" + run.log.read_text())
    assert images_seen(read_run(run)) == 800
    run.log.write_text("no record\n")
    assert images_seen(read_run(run)) == 100 * igpt.digits().train.batch_size


def test_a_run_without_results_claims_nothing(tmp_path: Path) -> None:
    assert headlines.headline({"run": read_run(bare(tmp_path / "run"))}) == "Not evaluated yet."


def test_the_test_loss_has_priority_over_the_validation_loss(tmp_path: Path) -> None:
    assert held_out_loss(read_run(whole(tmp_path / "run"))) == MeanLoss(1.8, 64, "test")


@pytest.mark.parametrize(
    ("name", "values"), [("patchformer.tiny", 4), ("vit.tiny", 512), ("igpt.tiny", 512), ("igpt.digits", 17)]
)
def test_an_untrained_network_predicts_every_value_uniformly(tmp_path: Path, name: str, values: int) -> None:
    assert uniform_classes(read_run(bare(tmp_path / "run", registry.find(name)))) == values


@pytest.mark.parametrize(
    ("count", "text"), [(12.34, "12.3"), (0.123, "0.12"), (0.004, "less than 0.01"), (1200.0, "1,200.0")]
)
def test_epochs_have_enough_digits(count: float, text: str) -> None:
    assert format_epochs(count) == text


def test_a_probe_of_fewer_images_does_not_replace_the_main_one(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    few = {"train": 3, "validation": 3, "test": 3}
    careless = evidence(trained=(0.1, 0.2, 0.3))
    careless = replace(careless, network=replace(careless.network, num_images=few))
    probe(run, careless, name="zzz", written="9999")
    assert "50.0\u00a0% at layer 1" in headlines.headline({"run": read_run(run)})


def test_a_probe_of_other_data_does_not_replace_that_of_the_runs_own(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    many = evidence(trained=(0.1, 0.2, 0.3))
    many = replace(
        many, network=replace(many.network, num_images={"train": 9999, "validation": 9, "test": 9})
    )
    probe(run, many, name="zzz", data="others", written="9999")
    assert "50.0\u00a0% at layer 1" in headlines.headline({"run": read_run(run)})


def test_of_equal_probes_the_newest_is_the_main_one(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    probe(run, evidence(trained=(0.1, 0.2, 0.3)), name="aaa", written="9999")
    assert "30.0\u00a0% at layer 2" in headlines.headline({"run": read_run(run)})
