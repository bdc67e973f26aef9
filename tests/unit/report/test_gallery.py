"""Pictures on the page say what they show."""

from pathlib import Path

from isopix.recipes import registry
from isopix.report import page
from tests.unit.report.cases import bare, drawing


def test_patches_are_called_patches_and_said_to_be_drawn_back(tmp_path: Path) -> None:
    run = bare(tmp_path / "run", registry.find("patchformer.tiny"))
    drawing(run, "reconstructions")
    text = page.build([run])
    assert "the mauve patches are hidden; the model names the likeliest value of each" in text
    assert "drawn back into the picture" in text
