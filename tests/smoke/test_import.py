"""`isopix import` and `verify`: imported models work with every command."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import isopix as package
from isopix.recipes import igpt
from isopix.recipes.published import PublishedLoss
from tests.smoke.conftest import QUICK, Run, done, refused
from tests.unit.interop import bundles

pytestmark = pytest.mark.usefixtures("quick_probes", "quick_figures")
MODEL = {"depth": 2, "width": 16, "heads": 2, "colors": 27, "positions": 64}
DIGITS = ["--data", "digits", "--limit", "8"]


@pytest.fixture
def exported(isopix: Run) -> Run:
    """A run, its Hugging Face export, and what that is imported as, `again`."""
    done(isopix("pretrain", "igpt.digits", *QUICK, "lr=0.1", "--out", "run"))
    done(isopix("export", "run", "exported"))
    return isopix


@pytest.fixture
def imported(exported: Run) -> Run:
    out = done(exported("import", "exported", "again", "--json"))
    assert json.loads(out)["skipped"] == {"zero bias": 4}
    return exported


def test_an_imported_model_works_with_every_command(imported: Run) -> None:
    one, other = (package.load(name, device="cpu") for name in ("run", "again"))
    for name, tensor in one.network.tensors().items():
        assert torch.equal(tensor, other.network.tensors()[name]), name
    unknown = "the training images of this model are not known; {} images may be among them"
    for words, note, warning in (
        (["evaluate", "again", *DIGITS], unknown.format("test"), ""),
        (["probe", "again", "--data", "digits", "--limit", "60"], unknown.format("test"), ""),
        (["sample", "again", "-n", "4"], "", ""),
        (["complete", "again", "--data", "digits", "--rows", "4", "-n", "4"], "", unknown.format("train")),
        (["report", "again"], "", ""),
    ):
        code, out, err = imported(*words)
        assert (code, err.strip()) == (0, warning), words
        assert note in " ".join(out.split()), words
    assert "imported from Hugging Face" in Path("again/report.html").read_text()
    code, _, err = imported("resume", "again")
    assert code == 2
    assert "again is a model without optimizer state" in err


def test_a_saved_model_can_be_verified_and_exported(imported: Run) -> None:
    package.load("again", device="cpu").save("saved")
    done(imported("export", "saved", "back"))
    assert Path("back/model.safetensors").read_bytes() == Path("exported/model.safetensors").read_bytes()
    done(imported("evaluate", "saved", *DIGITS))


@pytest.mark.parametrize("start", [True, False], ids=["autoregressive", "masked"])
def test_a_checkpoint_of_openais_serves_every_verb(isopix: Run, start: bool) -> None:
    head = {"model/clf/w": np.zeros((MODEL["width"], 10), np.float32)}
    model = bundles.variables(**(MODEL | {"positions": 16}), start=start)
    bundles.write(Path("model.ckpt-131000"), model | head)
    np.save("kmeans_centers.npy", bundles.LEVELS)
    words = ["import", "model.ckpt-131000", "igpt", "--palette", "kmeans_centers.npy"]
    refused(
        isopix(*words, "--squash"),
        f"{words[1]}: squash is not for a model of kind openai; allowed: palette",
    )
    out = done(isopix(*words))
    assert "4×4 pixels" in out
    assert re.search("skipped, classifier head +1", out)
    assert "step 131,000" in isopix("evaluate", "igpt", *DIGITS)[1]
    code, out, err = isopix("sample", "igpt", "-n", "2")
    assert code == (0 if start else 2), err
    assert isopix("reconstruct", "igpt", "--data", "digits", "-n", "2")[0] == (2 if start else 0)
    done(isopix("probe", "igpt", "--data", "digits", "--limit", "40"))


def test_verify_names_a_changed_file_of_the_newest_checkpoint(exported: Run) -> None:
    """An intact older checkpoint does not replace it."""
    name = "model.safetensors"
    newest = max(Path("run/checkpoints").glob("step-*"))
    shutil.copytree(newest, newest.with_name("step-00000000"), dirs_exist_ok=True)
    assert f"{newest}: all 5 files match the hashes" in exported("evaluate", "run", *DIGITS)[1]
    data = bytearray((newest / name).read_bytes())
    data[-2] ^= 1
    (newest / name).write_bytes(data)
    for folder in ("run", str(newest)):
        code, out, err = exported("evaluate", folder, *DIGITS)
        assert (code, out) == (2, "")
        assert f"{name} does not have the SHA-256 of manifest.json: changed" in err


def test_the_loss_is_compared_with_the_published_one(imported: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = PublishedLoss(2.5, "s", "p", step=1000)
    monkeypatch.setattr(igpt, "published_loss", lambda recipe, codec: claim)
    printed = json.loads(imported("evaluate", "run", *DIGITS, "--json")[1])
    assert printed["published"] == {"nats": 2.5, "source": "s", "protocol": "p", "step": 1000}
    out = imported("evaluate", "run", *DIGITS)[1]
    assert f"difference from the published loss: {printed['loss_nats'] - 2.5:+.4f} nats" in out
    assert "published loss: step 1,000; this model: step 2\n" in out
    assert "this model: step unknown\n" in imported("evaluate", "again", *DIGITS)[1]
