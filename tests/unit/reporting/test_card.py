"""A model card states the run's numbers and settings, and no path of the machine that it was made on."""

from dataclasses import replace
from pathlib import Path

import pytest

from isopix.data.dataset import DataConfig
from isopix.recipes import igpt
from isopix.reporting.card import model_card
from isopix.reporting.run_record import read_run
from isopix.storage.run_folder import RunFolder
from tests.unit.reporting.cases import evidence, fine_tuned, imported, whole


def card(run: Path, library: str = "isopix") -> str:
    return model_card(read_run(RunFolder(run)), name="someone/model", library=library).replace("\u00a0", " ")  # type: ignore[arg-type]


def test_the_card_has_settings_results_usage_and_commands(tmp_path: Path) -> None:
    text = card(whole(tmp_path / "run").path)
    assert text.startswith("---\nlibrary_name: isopix\ntags:\n- image-gpt")
    assert "# model\n" in text
    assert "| depth | 1 |" in text or "| depth |" in text
    assert "Test loss: **1.800 nats per pixel** (2.597 bits), 64 test images of digits." in text
    assert "top neighbor 1.766" in text
    assert "| 1 * | 50.0% (48.0 to 52.0) |" in text
    assert "features = model.features(images, layer=1)" in text
    assert "isopix pretrain --data 'a b'" in text
    assert "/home/someone" not in text


def test_what_is_not_in_the_folder_is_left_out(tmp_path: Path) -> None:
    text = card(imported(tmp_path / "imported").path)
    assert "The training images are not known." in text
    assert "openai/igpt-s" in text
    assert "imagenet (as stated at import)" in text
    assert "## Results" not in text
    assert "steps" not in text


def test_a_classifier_has_its_accuracy(tmp_path: Path) -> None:
    text = card(fine_tuned(tmp_path / "tuned").path)
    assert "Test accuracy: **60.0 %** (53.0 % to 67.0 %, 95 %), 180 test images of digits." in text


def test_transformers_supports_autoregressive_models_only(tmp_path: Path) -> None:
    assert "ImageGPTForCausalImageModeling" in card(whole(tmp_path / "ar").path, "transformers")
    with pytest.raises(ValueError, match="transformers supports autoregressive models"):
        card(whole(tmp_path / "bert", igpt.digits_bert()).path, "transformers")


def test_markup_of_users_is_escaped(tmp_path: Path) -> None:
    run = whole(
        tmp_path / "run",
        replace(igpt.digits(), data=DataConfig(source="a|b<i>", rows=8, cols=8)),
        evidence(data="<b>x</b>"),
    )
    text = card(run.path)
    assert "a\\|b\\<i\\>" in text
    assert "<b>" not in text
