"""Other people's models in and ours out, as commands: what was converted serves every verb."""

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import isopix as package
from isopix.cli import verify
from isopix.papers.claim import Claim
from isopix.runs.load import load_run
from tests.smoke.conftest import QUICK, Run
from tests.smoke.test_bad_input import refused
from tests.unit.interop import bundles, models, variables

HEAD = "lm_head.weight"
pytestmark = pytest.mark.usefixtures("quick_probes")
MODEL = {"depth": 2, "width": 16, "heads": 2, "colours": 27, "positions": 64}


@pytest.fixture
def exported(isopix: Run) -> Run:
    """A run, and what Hugging Face would read of it."""
    assert isopix("pretrain", "igpt.digits", *QUICK, "lr=0.1", "--out", "run")[0] == 0
    assert isopix("convert", "to-huggingface", "run", "exported")[0] == 0
    return isopix


def test_ours_to_theirs_to_ours_is_the_same_model(exported: Run) -> None:
    code, out, err = exported("convert", "huggingface", "exported", "again", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["skipped"] == {"a bias, all of it zero": 4}
    one, other = (package.load(name, device="cpu") for name in ("run", "again"))
    for name, tensor in one.network.tensors().items():
        assert torch.equal(tensor, other.network.tensors()[name]), name


def test_what_was_converted_serves_every_verb(exported: Run) -> None:
    code, out, err = exported("convert", "huggingface", "exported", "again")
    assert (code, err) == (0, "")
    accounts = Path("again/checkpoints/step-00000000/imported.json")
    assert f"what became of each tensor: {accounts}" in out
    taken = json.loads(accounts.read_text())["tensors"]
    places = {each["theirs"]: each["ours"] for each in taken}
    assert places["transformer.wpe.weight"] == ["backbone.positions.table"]
    for words in (
        ["verify", "again", "--data", "digits", "--limit", "8"],
        ["probe", "again", "--data", "digits", "--limit", "60"],
        ["sample", "again", "-n", "4"],
        ["complete", "again", "--data", "digits", "--rows", "4", "-n", "4"],
        ["report", "again"],
    ):
        code, _, err = exported(*words)
        assert (code, err) == (0, ""), words
    assert "imported from Hugging Face" in Path("again/report.html").read_text()


def test_of_a_training_that_nobody_knows_nothing_is_told(exported: Run) -> None:
    assert exported("convert", "huggingface", "exported", "again")[0] == 0
    assert exported("verify", "again", "--data", "digits", "--limit", "8")[0] == 0
    assert exported("report", "again")[0] == 0
    assert exported("convert", "to-huggingface", "again", "back")[0] == 0
    card, page = Path("back/README.md").read_text(), Path("again/report.html").read_text()
    page = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", page, flags=re.DOTALL)
    unknown = r"Adam|k-means|seed|imagenet-1k|resume|epoch|batch|images shown|shown \d|steps of"
    for told in (card, page):
        assert re.findall(unknown, told) == []
        assert "It is imported from Hugging Face exported; its training is not known." in told
        assert "over 8 test images of digits" in told
    assert exported("convert", "huggingface", "exported", "stated", "--data", "digits")[0] == 0
    assert exported("convert", "to-huggingface", "stated", "told")[0] == 0
    assert "when it was imported, to be trained on “digits”" in Path("told/README.md").read_text()


def test_the_training_of_an_imported_model_cannot_go_on(exported: Run) -> None:
    assert exported("convert", "huggingface", "exported", "again")[0] == 0
    message = (
        "again holds a model without the state of its optimizer, as an imported one has none; "
        "it can be probed, sampled and reported, but its training cannot be resumed"
    )
    answer = exported("resume", "again")
    refused(answer, message)
    assert answer[1] == ""


def test_a_folder_of_theirs_is_no_run_and_what_makes_one_is_said(exported: Run) -> None:
    line = (
        "exported is a Hugging Face model; isopix convert huggingface exported OUT makes a run folder of it"
    )
    for verb in ("verify", "probe", "sample", "report"):
        refused(exported(verb, "exported"), line)
    with pytest.raises(ValueError, match=f"^{line}$"):
        package.load("exported")


def test_what_python_saved_is_verified_converted_and_published_but_no_run(
    exported: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exported("convert", "huggingface", "exported", "again")[0] == 0
    package.save(package.load("again", device="cpu"), "saved")
    assert exported("convert", "to-huggingface", "saved", "back")[0] == 0
    assert Path("back/model.safetensors").read_bytes() == Path("exported/model.safetensors").read_bytes()
    assert "imported from Hugging Face exported" in Path("back/README.md").read_text()
    assert exported("verify", "saved", "--data", "digits", "--limit", "8")[0] == 0
    made = SimpleNamespace(create_repo=lambda name, **_: name, upload_folder=lambda **_: None)
    monkeypatch.setitem(sys.modules, "huggingface_hub", made)
    assert exported("publish", "saved", "me/mine")[:2] == (0, "published step 0 of saved: me/mine\n")
    for verb in ("probe", "sample", "report"):
        code, _, err = exported(verb, "saved")
        assert code == 2
        assert "convert to-huggingface read it, and isopix.load in Python" in err


def test_weights_that_are_rounded_are_counted(exported: Run) -> None:
    models.change_weights(
        Path("exported"), lambda tensors: tensors.update({HEAD: tensors[HEAD].double() * 1.1})
    )
    code, out, err = exported("convert", "huggingface", "exported", "again")
    assert (code, err) == (0, "")
    assert "1 tensor of float64 was rounded to float32, in which networks compute here\n" in out
    accounts = json.loads(Path("again/checkpoints/step-00000000/imported.json").read_text())["tensors"]
    assert [each["theirs"] for each in accounts if each["rounded"]] == [HEAD]
    assert json.loads(exported("convert", "huggingface", "exported", "b", "--json")[1])["rounded"] == 1


def test_a_grid_that_no_file_says_is_given_in_words(isopix: Run) -> None:
    bundles.write(Path("model.ckpt-1"), variables.draw(**(MODEL | {"positions": 32})))
    levels = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3), -1).reshape(-1, 3).astype(np.float32)
    np.save("centres.npy", levels)
    assert isopix("palette", "import", "centres.npy", "--range", "-1", "1", "--out", "p.npz")[0] == 0
    words = ["convert", "openai", "model.ckpt-1", "igpt", "--palette", "p.npz"]
    line = "checkpoint model.ckpt-1: its 32 positions are no square; give --rows and --cols"
    refused(isopix(*words), line)
    refused(isopix(*words, "--rows", "4"), "--rows and --cols belong together; one of them is missing")
    assert isopix(*words, "--rows", "4", "--cols", "8")[1].count("reads images of 4×8") == 1


def test_a_folder_that_is_not_empty_is_left_alone(exported: Run) -> None:
    before = sorted(Path("run").rglob("*"))
    assert exported("convert", "huggingface", "exported", "run")[0] == 2
    assert exported("convert", "to-huggingface", "run", "run")[0] == 2
    assert sorted(Path("run").rglob("*")) == before


def test_their_class_cannot_run_a_masked_model(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits_bert", *QUICK, "--out", "bert")[0] == 0
    code, _, err = isopix("convert", "to-huggingface", "bert", "exported")
    assert code == 2
    assert "masked" in err
    assert not Path("exported").exists()


@pytest.mark.parametrize("start", [True, False], ids=["autoregressive", "masked"])
def test_a_checkpoint_of_openais_serves_every_verb(isopix: Run, start: bool) -> None:
    head = {"model/clf/w": np.zeros((MODEL["width"], 10), np.float32)}
    bundles.write(Path("model.ckpt-131000"), variables.draw(**MODEL, start=start) | head)
    levels = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3), -1).reshape(-1, 3).astype(np.float32)
    np.save("centres.npy", levels)
    assert isopix("palette", "import", "centres.npy", "--range", "-1", "1", "--out", "palette.npz")[0] == 0
    words = ["convert", "openai", "model.ckpt-131000", "igpt", "--palette", "palette.npz"]
    code, out, err = isopix(*words)
    assert (code, err) == (0, "")
    assert "1 × classifier head" in out
    assert "step 131,000" in isopix("verify", "igpt", "--data", "digits", "--limit", "8")[1]
    code, out, err = isopix("sample", "igpt", "-n", "2")
    assert code == (0 if start else 2), err
    assert isopix("reconstruct", "igpt", "--data", "digits", "-n", "2")[0] == (2 if start else 0)
    assert isopix("probe", "igpt", "--data", "digits", "--limit", "40")[0] == 0


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "recipe.json"])
def test_verify_names_a_file_of_the_newest_checkpoint_that_was_changed(exported: Run, name: str) -> None:
    """An older checkpoint that is whole does not stand in for it."""
    newest = max(Path("run/checkpoints").glob("step-*"))
    shutil.copytree(newest, newest.with_name("step-00000000"), dirs_exist_ok=True)
    words = ["--data", "digits", "--limit", "8"]
    assert f"{newest}: all 5 files have the hash" in exported("verify", "run", *words)[1]
    data = bytearray((newest / name).read_bytes())
    data[-2] ^= 1
    (newest / name).write_bytes(data)
    for folder in ("run", str(newest)):
        code, out, err = exported("verify", folder, *words)
        assert (code, out) == (2, "")
        assert f"{name} does not have the sha256 that the manifest says: altered" in err


def test_a_published_loss_stands_beside_the_one_of_such_a_network(
    exported: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_run(Path("run"), device=torch.device("cpu"))
    about = {"recipe": loaded.recipe, "protocol": "p", "source": "s", "unit": "nats"}
    claim = Claim(**about, value=2.5, palette=loaded.network.codec.fingerprint(), step=2)
    monkeypatch.setattr(verify, "TEST_LOSSES", (claim,))
    words = ["verify", "run", "--data", "digits", "--limit", "8"]
    told = json.loads(exported(*words, "--json")[1])
    assert told["published"] == {"nats": 2.5, "source": "s", "step": 2}
    out = exported(*words)[1]
    assert f"difference from the published loss: {told['loss_nats'] - 2.5:+.4f} nats" in out
    assert "published after" not in out
    monkeypatch.setattr(verify, "TEST_LOSSES", (replace(claim, step=1000),))
    assert "published after 1,000 steps; this is step 2\n" in exported(*words)[1]
    assert exported("convert", "huggingface", "exported", "again")[0] == 0
    out = exported("verify", "again", *words[2:])[1]
    assert "published after 1,000 steps; this is step not known\n" in out
    monkeypatch.setattr(verify, "TEST_LOSSES", (replace(claim, palette="another"),))
    assert "no loss is published for such a network" in exported(*words)[1]


@pytest.mark.parametrize(
    ("layout", "weights", "library"),
    [("isopix", "model.safetensors", "isopix"), ("huggingface", "model.safetensors", "transformers")],
)
def test_a_run_is_published_with_its_card(
    exported: Run, monkeypatch: pytest.MonkeyPatch, layout: str, weights: str, library: str
) -> None:
    """By a hub that writes down what it is given."""

    def upload(*, repo_id: str, folder_path: Path, commit_message: str) -> None:
        shutil.copytree(folder_path, Path("hub") / repo_id)

    made = SimpleNamespace(create_repo=lambda name, **_: f"hub/{name}", upload_folder=upload)
    monkeypatch.setitem(sys.modules, "huggingface_hub", made)
    code, out, err = exported("publish", "run", "me/mine", "--layout", layout)
    assert (code, err) == (0, "")
    assert out == "published step 2 of run: hub/me/mine\n"
    told = Path("hub/me/mine/README.md").read_text()
    assert f"library_name: {library}" in told
    assert "me/mine" in told
    if layout == "isopix":
        again = package.load("hub/me/mine", device="cpu")
    else:
        assert exported("convert", "huggingface", "hub/me/mine", "again")[0] == 0
        again = package.load("again", device="cpu")
    for name, tensor in package.load("run", device="cpu").network.tensors().items():
        assert torch.equal(tensor, again.network.tensors()[name]), name


def test_without_its_library_nothing_is_published(exported: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    code, _, err = exported("publish", "run", "me/mine")
    assert code != 0
    assert "'me/mine': the hub needs pip install 'isopix[hf]'" in err
