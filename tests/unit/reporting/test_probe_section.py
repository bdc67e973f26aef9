"""Probes on the page: how each was made, and which can be compared."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from isopix.reporting.baselines import baseline_rows
from isopix.reporting.probe_section import probe_settings

from isopix.model.pool import POOLS, Pool
from isopix.probing.config import ProbeConfig
from isopix.probing.linear import RidgeProbe
from isopix.probing.results import ConcatResult
from isopix.reporting import page
from isopix.reporting.run_record import read_run
from tests.unit.reporting.cases import evidence, probe, score, whole, words


def test_the_page_says_how_a_probe_was_made(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    refit = replace(score(1, 0.61), lr=3.0, l2=None)
    config = ProbeConfig(features="residual", refit_on_validation=True)
    probe(run, replace(evidence(), config=config, refit=refit), limit=400)
    text = words(page.build([run]))
    assert "1,437 train, 180 validation, 180 test images, at most 400 of each split" in text
    how = "logistic regression (L-BFGS)."
    assert f"Features: mean-pooled, residual stream; {how}" in text
    assert (
        "Refit on train + validation (layer 1, learning rate 3, 1,617 images): 61.0 % (59.0 to 63.0 %)."
        in text
    )
    assert "1 refit on train + validation61.0 %" in text


def test_probe_files_without_newer_fields_are_read(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    [path] = run.probes.glob("*.json")
    values = json.loads(path.read_text())
    for part in (values["network"], *values["baselines"].values()):
        del part["concat"]
    del values["refit"], values["config"]["refit_on_validation"], values["config"]["layer"]
    path.write_text(json.dumps(values))
    text = page.build([run])
    assert "untrained" in text
    assert "could not be read" not in text


def test_the_page_names_classifier_masks_and_concatenated_layers(tmp_path: Path) -> None:
    run, found = whole(tmp_path / "run"), evidence()
    concat = ConcatResult((0, 1, 2), replace(found.network.best, test_accuracy=0.77))
    network = replace(found.network, concat=concat)
    config = ProbeConfig(method=RidgeProbe(), mask_ensemble=5, concat=3)
    probe(run, replace(found, network=network, config=config))
    text = words(page.build([run]))
    how = "norm, majority vote of 5 masks; ridge regression."
    assert how in text
    assert "layers 0–2 concatenated77.0 %" in text
    assert text.count("(ridge regression, majority vote of 5 masks)") >= 2  # the headline and the table


def test_the_page_says_which_of_several_probes_is_in_the_headline(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    assert "probe is in the headline" not in words(page.build([run]))
    probe(
        run,
        replace(evidence(trained=(0.9, 0.1)), config=ProbeConfig(features="residual")),
        name="later",
        written="9",
    )
    text = words(page.build([run]))
    assert text.count("probe is in the headline") == 1
    first, second = text.index("mean-pooled, after"), text.index("residual stream")
    assert first < text.index("probe is in the headline") < second
    assert "50.0 % at layer 1." in text


def test_probes_that_cannot_be_compared_share_no_row_and_no_figure(tmp_path: Path) -> None:
    runs = [whole(tmp_path / name) for name in ("a", "b")]
    assert "rings: best layers" in page.build(runs)
    probe(runs[1], evidence(), limit=400)
    records = page.read(runs)
    names = [row.name for row in baseline_rows(records)]
    half = ["untrained", "shuffled labels", "raw pixels", "majority class"]
    assert names == ["a", *half, "b", *half]
    assert "rings: best layers" not in page.render_report(records)
    assert "2 runs whose probes cannot be compared: they differ in images." in words(
        page.render_report(records)
    )


def test_a_network_that_gained_nothing_has_a_diagnosis(tmp_path: Path) -> None:
    run = whole(tmp_path / "run", found=evidence(trained=(0.3, 0.31)))
    text = "No layer is significantly better than the untrained network. Possible reasons: "
    assert words(page.build([run])).count(text) == 1
    assert words(page.build([run, whole(tmp_path / "other")])).count(text) == 1


@pytest.mark.parametrize("pool", POOLS)
def test_every_pool_has_words(pool: Pool) -> None:
    assert probe_settings(ProbeConfig(pool=pool)).endswith("; logistic regression (L-BFGS)")


def test_components_of_pixels_are_a_shared_baseline_with_their_number(tmp_path: Path) -> None:
    report = evidence()
    counts = {"raw pixels": 192, "raw pixels, PCA": 32}
    one = report.baselines["raw pixels"]
    pixels = {name: replace(one, num_features=count) for name, count in counts.items()}
    found = replace(report, baselines={**report.baselines, **pixels})
    run = read_run(whole(tmp_path / "run", found=found))
    rows = {row.name: row.kind for row in baseline_rows({"run": run})}
    assert rows["raw pixels (192 features)"] == rows["raw pixels, PCA (32 features)"] == "shared"
