"""Few-label errors in the report: the numbers of the file, and what chose layer and step."""

from pathlib import Path
from typing import Any

from isopix.reporting.low_data_section import low_data_section

from isopix.reporting import page
from isopix.reporting.run_reader import read_run
from isopix.storage.atomic import write_json
from tests.unit.reporting.cases import whole


def result(labels: int | str, errors: list[float], layers: list[int], selecting: int = 60) -> dict[str, Any]:
    numbers = {
        "labels_per_class": labels,
        "num_train_images": 1000 if labels == "10%" else 50,
        "num_test_images": 1234,
    }
    derived = {"mean": sum(errors) / len(errors), "std": 0.0}  # of the file, not of LowDataResult
    return {**numbers, "layers": layers, "errors": errors, "num_selection_images": selecting, **derived}


def section(folder: Path, select: str = "validation", subsets: int = 3) -> str:
    run = whole(folder)
    probed = [result(5, [0.5, 0.6, 0.7][:subsets], [3]), result("10%", [0.2, 0.2, 0.2][:subsets], [4])]
    tuned = [result(5, [0.4, 0.4, 0.4][:subsets], [], 0), result("10%", [0.1, 0.2, 0.3][:subsets], [], 0)]
    results = {"trained": probed, "fine-tuned": tuned}
    record = {"kind": "low_data", "step": 40, "data": "photos", "select": select, "results": results}
    (run.low_data / "labels-5-subset-0-abc").mkdir(parents=True)  # a run folder of fine-tuning
    write_json(run.low_data / "low-data-00000040-photos-abc.json", record)
    return (
        page.build([run])
        .replace("\u00a0", " ")
        .partition("<h3>Few labels</h3>")[2]
        .partition("</section>")[0]
    )


def test_it_shows_mean_and_standard_deviation_by_method(tmp_path: Path) -> None:
    text = section(tmp_path / "run")
    for shown in (
        "labels per class (total)",
        "5 (50)",
        "10% (1,000)",
        "60.0 % ± 10.0",
        "20.0 % ± 10.0",
        "3, 4",
    ):
        assert shown in text
    assert "Test error on photos, 1,234 images: mean ± standard deviation over 3 random balanced" in text
    assert "chosen on 60 labeled validation images; fine-tuned: fixed number of steps." in text


def test_one_subset_has_no_standard_deviation(tmp_path: Path) -> None:
    text = section(tmp_path / "run", subsets=1)
    assert "50.0 %" in text
    assert "±" not in text
    assert "1,234 images: 1 random balanced subset of the training images." in text


def test_it_says_when_no_validation_image_was_used(tmp_path: Path) -> None:
    text = section(tmp_path / "run", "cross-validation")
    assert "cross-validation within the labeled images" in text
    assert "validation images" not in text


def test_a_run_without_few_labels_has_no_section(tmp_path: Path) -> None:
    assert "Few labels" not in page.build([whole(tmp_path / "run")])


def test_a_damaged_file_is_listed(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    run.low_data.mkdir()
    write_json(run.low_data / "low-data-00000040-photos-abc.json", {"step": 1, "results": {"trained": [{}]}})
    text = page.build([run])
    assert "low-data-00000040-photos-abc.json" in text
    assert "Few labels" not in text


def test_raw_pixels_are_named_with_their_number_and_have_no_layer(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    found = {**result(5, [0.5], [0]), "num_features": 64}
    results = {"untrained": [found], "raw pixels, PCA": [found]}
    record = {"kind": "low_data", "step": 40, "data": "photos", "select": "validation", "results": results}
    run.low_data.mkdir(parents=True)
    write_json(run.low_data / "low-data-00000040-photos-abc.json", record)
    [panel] = low_data_section(read_run(run)).panels
    rows = [row.cells[:2] for row in panel.tables[0].rows]
    assert rows == [["untrained", "0"], ["raw pixels, PCA (64 features)", ""]]
