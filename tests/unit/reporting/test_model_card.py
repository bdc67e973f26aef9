"""A model card has the numbers of the run folder, nothing else, and its code runs."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from PIL import Image

from isopix.data.dataset import DataConfig
from isopix.recipes import igpt, registry
from isopix.recipes.recipe import Recipe
from isopix.reporting.model_card import Library, model_card
from isopix.reporting.run_reader import read_run
from isopix.reporting.run_record import RunRecord
from isopix.runs.observer import RunObserver
from isopix.runs.pretrain import train_recipe
from isopix.storage.run_folder import RunFolder
from isopix.verbs import convert as huggingface
from tests.unit.reporting.cases import bare, baselines, evidence, probe, regression, whole


def written(
    tmp_path: Path,
    record: RunRecord | None = None,
    name: str = "me/net",
    library: Library = "transformers",
) -> str:
    return model_card(record or read_run(whole(tmp_path / "run")), name=name, library=library)


def snippet(text: str) -> str:
    (found,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return found


def test_the_front_matter_is_yaml_that_the_hub_knows(tmp_path: Path) -> None:
    _, front, rest = written(tmp_path).split("---\n", 2)
    values = yaml.safe_load(front)
    assert values["library_name"] == "transformers"
    assert "pipeline_tag" not in values
    assert rest.lstrip().startswith("# net\n")


@pytest.mark.parametrize(
    ("recipe", "tags"),
    [
        (igpt.digits_bert(), ["image-gpt", "imagegpt"]),
        (regression(), []),
        (registry.find("isotropic.tiny-conv-pix2vec-1"), []),
    ],
    ids=["palette and transformer", "patches and transformer", "bytes and convolution"],
)
def test_tags_of_a_family_are_those_that_codec_and_block_share(
    tmp_path: Path, recipe: Recipe, tags: list[str]
) -> None:
    record = read_run(bare(tmp_path / "run", recipe))
    front = yaml.safe_load(written(tmp_path, record, library="isopix").split("---\n", 2)[1])
    assert front["tags"] == [*tags, "isopix", "self-supervised"]


def test_for_classes_alone_it_has_their_accuracy_and_no_loss_of_codes(tmp_path: Path) -> None:
    run = read_run(whole(tmp_path / "run"))
    recipe = {**run.settings, "finetune": {"generative_weight": 0.0}}
    tested = {
        "kind": "evaluation",
        "step": 100,
        "split": "test",
        "images": 64,
        "class_nats": 1.0,
        "accuracy": 0.5,
    }
    made = {**run.environment, "trained_parameters": 12345}
    text = written(
        tmp_path,
        replace(run, settings=recipe, log=[*run.log[:-1], tested], environment=made, verifications=[]),
        library="isopix",
    ).replace("\u00a0", " ")
    for shown in ("Test accuracy: **50.0 %**", "64 images", "12,345 of them trained"):
        assert shown in text
    for absent in ("nats per", "model.nll", "`sample`"):
        assert absent not in text


def test_the_numbers_are_those_of_the_run_folder(tmp_path: Path) -> None:
    text = written(tmp_path).replace("\u00a0", " ")
    for shown in (
        "1.800 nats per pixel",
        "64 test images",
        "Uniform prediction: 2.833",
        "| net | 1 | 50.0 % | 48.0 % to 52.0 % |",
        "| untrained | 0 | 30.0 % |",
        "| raw pixels (16 features), no network, digits |  | 40.0 % |",
        "| 2 | 40.0 % |",
        "after step 100",
        "8 × 8 pixels, 17-color palette (17 values per code)",
        "isopix pretrain 'a b'",
    ):
        assert shown in text


def test_the_loss_is_compared_with_learning_free_baselines(tmp_path: Path) -> None:
    run = read_run(whole(tmp_path / "run"))
    text = written(tmp_path, replace(run, log=[baselines(), *run.log]))
    assert (
        "Learning-free baselines, 60 test images: unigram 2.071, top neighbor 1.766, PNG 2.330 nats." in text
    )


def test_what_is_not_in_the_folder_is_left_out(tmp_path: Path) -> None:
    text = written(tmp_path, read_run(bare(tmp_path / "bare")))
    for shown in ("## Results", "nats per", "## Training", "after step"):
        assert shown not in text
    assert "## Usage" in text
    assert "None" not in text


def test_files_that_cannot_be_read_are_listed(tmp_path: Path) -> None:
    run = whole(tmp_path / "run")
    (run.probes / "probe.json").write_text("{")
    assert "Files that could not be read: probe.json" in written(tmp_path, read_run(run))


def test_no_folder_of_its_maker_is_published(tmp_path: Path) -> None:
    recipe = replace(igpt.digits(), data=DataConfig(source="/home/me/secret/photos", rows=8, cols=8))
    run = whole(tmp_path / "run", recipe)
    command = [
        "isopix",
        "pretrain",
        "igpt.digits",
        "--data",
        "/home/me/secret/photos",
        "codec.palette_file=/home/me/p.npz",
    ]
    run.environment.write_text(json.dumps({"command": command}))
    probe(run, evidence(), data="/home/me/secret/photos")
    text = written(tmp_path, read_run(run))
    assert "/home" not in text
    assert "photos" in text
    assert "codec.palette_file=p.npz" in text


def test_names_are_escaped(tmp_path: Path) -> None:
    run = whole(
        tmp_path / "run", replace(igpt.digits(), data=DataConfig(source="<b>[x](y)|_z_", rows=8, cols=8))
    )
    text = written(tmp_path, read_run(run))
    assert "<b>" not in text.replace("\\<b", "")
    assert r"\[x\](y)\|\_z\_" in text


def test_a_masked_run_is_not_for_transformers(tmp_path: Path) -> None:
    masked = read_run(whole(tmp_path / "run", igpt.digits_bert()))
    with pytest.raises(ValueError, match="Vision Transformers only; the objective of this one is masked"):
        written(tmp_path, masked)
    assert "nats per masked pixel" in written(tmp_path, masked, library="isopix")


@pytest.mark.parametrize("recipe", [igpt.digits(), igpt.digits_bert()], ids=["autoregressive", "masked"])
def test_our_own_snippet_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: Recipe) -> None:
    run = tmp_path / "run"
    settled = recipe.updated(
        steps=1,
        depth=2,
        width=16,
        data=replace(recipe.data, limit=40),
    )
    train_recipe(settled, run, device=torch.device("cpu"), observer=RunObserver())
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (20, 30), (200, 10, 10)).save("picture.png")
    found: dict[str, torch.Tensor] = {}
    exec(snippet(model_card(read_run(RunFolder.open(run)), name="run", library="isopix")), found)
    assert found["features"].shape == (1, 16)
    assert found["nats"].shape == (1,)


@pytest.mark.parametrize(
    "trained", [(0.3, 0.5, 0.4, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4, 0.5)], ids=["between", "last"]
)
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # their loaders leave files open
def test_the_snippet_gives_the_loss_and_the_features_of_the_best_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: tuple[float, ...]
) -> None:
    pytest.importorskip("transformers", reason="the reference is in isopix[bench]")
    recipe = igpt.digits()
    run = whole(tmp_path / "run", recipe, evidence(trained))
    grey = torch.arange(17)[:, None].expand(-1, 3) * 15.0
    net = recipe.build(recipe.model.codec.build(recipe.grid, grey))
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * 0.3)
    folder = tmp_path / "net"
    text = written(tmp_path, read_run(run), name=str(folder))
    huggingface.export_imagegpt(net).write(folder, card=text)
    images = net.codec.decode(torch.randint(0, 17, (1, 64, 1), generator=draw))
    Image.fromarray(images[0].movedim(0, 2).numpy()).save(tmp_path / "picture.png")
    monkeypatch.chdir(tmp_path)
    found: dict[str, torch.Tensor] = {}
    exec(snippet(text), found)
    with torch.no_grad():
        answers = net.codec.encode(images)[..., 0]
        nats = torch.nn.functional.cross_entropy(net(net.inputs_of(images))[0, :, 0], answers[0])
        features = list(net.features(images))[trained.index(max(trained))].mean(1)
    torch.testing.assert_close(found["nats"], nats, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found["features"].detach(), features, rtol=1e-4, atol=1e-4)


def test_only_an_image_gpt_is_tagged_as_one(tmp_path: Path) -> None:
    assert "- imagegpt\n" in written(tmp_path, library="isopix")
    other = read_run(bare(tmp_path / "other", registry.find("isotropic.tiny-conv-pix2vec-1")))
    assert "- imagegpt\n" not in written(tmp_path, other, library="isopix")
    assert "16 × 16 pixels, RGB bytes (256 values per code)" in written(tmp_path, other, library="isopix")


def test_a_regressions_card_has_no_uniform_prediction(tmp_path: Path) -> None:
    text = written(tmp_path, read_run(whole(tmp_path / "other", regression())), library="isopix")
    assert "nats per masked sub-pixel" in text
    assert "Uniform prediction" not in text
