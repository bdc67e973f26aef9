"""A model card states the run's numbers and settings, and no path of the machine that it was made on."""

from dataclasses import replace
from pathlib import Path

import pytest

from isopix.data.dataset import DataConfig
from isopix.probing.config import ProbeConfig
from isopix.recipes import igpt
from isopix.reporting.card import model_card
from isopix.reporting.run_record import read_run
from isopix.reporting.summary import headline
from isopix.storage.run_folder import RunFolder
from tests.unit.reporting.cases import call, evidence, fine_tuned, imported, whole


def card(run: Path, library: str = "isopix") -> str:
    return model_card(read_run(RunFolder(run)), name="someone/model", library=library).replace("\u00a0", " ")  # type: ignore[arg-type]


def test_the_card_has_settings_results_usage_and_commands(tmp_path: Path) -> None:
    text = card(whole(tmp_path / "run").path)
    assert text.startswith("---\nlibrary_name: isopix\ntags:\n- image-gpt\n- imagegpt\n- isopix\n")
    for part in (
        "# model\n",
        "| depth | 4 |",
        "Test loss: **1.800 nats per pixel** (2.597 bits), 64 test images of digits.",
        "top neighbor 1.766",
        "| 1 * | 50.0% (48.0 to 52.0) |",
        "features = model.features(images, layer=1)",
        "isopix pretrain --data 'a b'",
    ):
        assert part in text
    assert "/home/someone" not in text


def test_what_is_not_in_the_folder_is_left_out(tmp_path: Path) -> None:
    text = card(imported(tmp_path / "imported").path)
    for part in ("The training images are not known.", "openai/igpt-s", "imagenet (as stated at import)"):
        assert part in text
    for part in ("## Results", "## Training", "steps", "\n\n\n"):
        assert part not in text


def test_a_classifier_has_its_accuracy_and_the_layer_of_its_own_pool(tmp_path: Path) -> None:
    run = fine_tuned(tmp_path / "tuned", "max")
    evidence((0.2, 0.1, 0.3), config=ProbeConfig(pool="max")).saved(run.probes / "own.json")
    evidence((0.9, 0.1, 0.1), call=call("probe", "2030")).saved(run.probes / "mean.json")
    text = card(run.path)
    assert "Test accuracy: **60.0 %** (53.0 % to 67.0 %, 95 %), 180 test images of digits." in text
    assert "layer=2" in text
    assert headline({"run": read_run(run)}).replace("\u00a0", " ").startswith("Probe test accuracy: 30.0 %")


def test_transformers_supports_autoregressive_models_only(tmp_path: Path) -> None:
    assert "ImageGPTForCausalImageModeling" in card(whole(tmp_path / "ar").path, "transformers")
    with pytest.raises(ValueError, match="transformers supports autoregressive models"):
        card(whole(tmp_path / "bert", igpt.digits_bert()).path, "transformers")


def test_markup_of_users_is_escaped(tmp_path: Path) -> None:
    recipe = replace(igpt.digits(), data=DataConfig(source="a|b<i>", rows=8, cols=8))
    text = card(whole(tmp_path / "run", recipe, evidence(data="<b>x</b>")).path)
    assert "Training images: a\\|b\\<i\\>" in text
    assert "<b>" not in text
    assert "<i>" not in text
