"""Pictures have captions that say what they show."""

from pathlib import Path

from isopix.recipes import registry
from isopix.reporting import page
from tests.unit.reporting.cases import bare, drawing


def test_a_patch_codec_shows_decoded_patches(tmp_path: Path) -> None:
    run = bare(tmp_path / "run", registry.find("patchformer.tiny"))
    drawing(run, "reconstructions")
    text = page.build([run])
    assert (
        "masked patches in gray-violet. Prediction: the most likely value of each masked gray pixel" in text
    )
    assert "Predicted codes are shown decoded" in text


def test_a_column_without_learning_is_explained_where_there_is_one(tmp_path: Path) -> None:
    run = bare(tmp_path / "run", registry.find("igpt.digits"))
    drawing(run, "completions")
    explanation = "Nearest visible: each hidden pixel as the nearest visible one, without learning."
    assert explanation not in page.build([run])
    drawing(run, "completions", baseline="nearest visible")
    assert explanation in page.build([run])
