"""Conversions from Python are those of the command line."""

import json
from pathlib import Path

import pytest
import torch

import isopix
from isopix.codecs import palette_file
from isopix.codecs.palette_file import PaletteFile
from isopix.interop import hub
from tests.unit.api.conftest import assert_same_files, cli, read
from tests.unit.data.refusal import refusal
from tests.unit.interop import bundles, variables


def test_export_and_import_again(pristine: Path, tmp_path: Path) -> None:
    exported = isopix.convert.to_huggingface(pristine / "ar", tmp_path / "python")
    cli("convert", "to-huggingface", pristine / "ar", tmp_path / "cli")
    assert_same_files(tmp_path / "cli", tmp_path / "python")
    found = isopix.convert.huggingface(tmp_path / "cli", tmp_path / "run", data="digits")
    told = json.loads(cli("convert", "huggingface", tmp_path / "cli", tmp_path / "same", "--json"))
    assert (found.parameters, found.tensors, dict(found.skipped)) == (
        told["parameters"],
        told["tensors"],
        told["skipped"],
    )
    assert found.parameters == exported.parameters
    assert read(tmp_path / "run/environment.json")["trained_on"] == "digits"
    model, own = isopix.load(found.path, device="cpu"), isopix.load(pristine / "ar", device="cpu")
    assert torch.equal(model.sample(2), own.sample(2))


def test_the_class_head_of_a_fine_tuned_image_gpt_is_left_out_and_listed(
    pristine: Path, tmp_path: Path
) -> None:
    words = ["steps=1", "evaluate_every=1", "batch_size=8", "generative_weight=1", "patience=null"]
    run = isopix.finetune(pristine / "ar", *words, out=tmp_path / "ft", limit=60, device="cpu")
    skipped = {"class head, which ImageGPTForCausalImageModeling does not have": 1}
    found, before = (
        isopix.convert.to_huggingface(source, tmp_path / name)
        for source, name in ((run, "tuned"), (pristine / "ar", "pre-trained"))
    )
    assert dict(found.skipped) == skipped
    assert dict(before.skipped) == {}
    assert (found.tensors, found.parameters) == (before.tensors, before.parameters)
    told = cli("convert", "to-huggingface", tmp_path / "ft", tmp_path / "cli")
    assert "skipped 1 × class head, which ImageGPTForCausalImageModeling does not have" in told


def test_openai(tmp_path: Path) -> None:
    bundles.write(tmp_path / "model.ckpt-7", variables.draw())
    colors = torch.cartesian_prod(*[torch.tensor([0.0, 255.0])] * 3)[:7]
    palette_file.write_palette(tmp_path / "p.npz", PaletteFile(colors, "test"))
    found = isopix.convert.openai(tmp_path / "model.ckpt-7", tmp_path / "run", palette=tmp_path / "p.npz")
    assert (found.step, found.origin) == (7, "OpenAI model.ckpt-7")
    line = refusal(lambda: isopix.convert.huggingface(tmp_path, tmp_path / "x", rows=3))
    assert line == "both rows and cols are needed, or neither"


@pytest.mark.parametrize(("format", "file"), [("isopix", "recipe.json"), ("huggingface", "config.json")])
def test_publish(pristine: Path, monkeypatch: pytest.MonkeyPatch, format: str, file: str) -> None:
    uploaded: list[set[str]] = []

    def upload(folder: Path, name: str, *, private: bool) -> str:
        uploaded.append({path.name for path in folder.iterdir()})
        return f"hub/{name}/{private}"

    monkeypatch.setattr(hub, "upload", upload)
    assert isopix.publish(pristine / "ar", "me/mine", format=format, private=True).url == "hub/me/mine/True"
    assert {file, "README.md"} <= uploaded[0]
    model = isopix.load(pristine / "ar", device="cpu")
    assert isopix.publish(model, "me/mine", format=format).url == "hub/me/mine/False"
    assert file in uploaded[1]
