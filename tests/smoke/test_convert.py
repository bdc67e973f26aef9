"""Other people's models in and ours out, as commands: what was converted serves every verb."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import isopix as package
from tests.smoke.conftest import QUICK, Run
from tests.smoke.test_bad_input import refused
from tests.unit.interop.bundles import write

SIZES = {"depth": 2, "width": 16, "heads": 2, "colours": 27, "positions": 64}


@pytest.fixture
def exported(isopix: Run) -> Run:
    """A run, and what Hugging Face would read of it."""
    assert isopix("pretrain", "igpt.digits", *QUICK, "optimiser.learning_rate=0.1", "--out", "run")[0] == 0
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
    assert {"theirs": "transformer.wpe.weight", "ours": ["backbone.positions.table"], "skipped": ""} in taken
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


def test_the_training_of_an_imported_model_cannot_go_on(exported: Run) -> None:
    assert exported("convert", "huggingface", "exported", "again")[0] == 0
    message = (
        "again holds a model without the state of its optimiser, as an imported one has none; "
        "it can be probed, sampled and reported, but its training cannot go on"
    )
    refused(exported("resume", "again"), message)


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


def variables(start: bool) -> dict[str, np.ndarray]:
    """A checkpoint of OpenAI's, of random numbers, in their names and shapes."""
    depth, width, heads = SIZES["depth"], SIZES["width"], SIZES["heads"]
    shapes = {"wte": (27, width), "wtet": (27, width), "wpe": (64, width), "ln_f/g": (width,)}
    for layer in (f"h{number}" for number in range(depth)):
        attention = {f"{layer}/attn/{n}": (heads, width // heads, width) for n in ("q_proj", "k_proj")}
        attention |= {f"{layer}/attn/{n}": (heads, width // heads, width) for n in ("v_proj", "c_proj")}
        shapes |= attention | {f"{layer}/ln_1/g": (width,), f"{layer}/ln_2/g": (width,)}
        shapes |= {f"{layer}/mlp/c_fc/w": (width, 4 * width), f"{layer}/mlp/c_proj/w": (4 * width, width)}
    shapes |= {"sos": (width,)} if start else {}
    draw = np.random.default_rng(0)
    named = {f"model/{name}": draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return named | {"model/clf/w": np.zeros((width, 10), np.float32)}


@pytest.mark.parametrize("start", [True, False], ids=["autoregressive", "masked"])
def test_a_checkpoint_of_openais_serves_every_verb(isopix: Run, start: bool) -> None:
    write(Path("model.ckpt-131000"), variables(start))
    levels = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 3), -1).reshape(-1, 3).astype(np.float32)
    np.save("centres.npy", levels)
    assert isopix("palette", "import", "centres.npy", "--range", "-1", "1", "--out", "palette.npz")[0] == 0
    words = ["convert", "openai", "model.ckpt-131000", "igpt", "--palette", "palette.npz"]
    code, out, err = isopix(*words)
    assert (code, err) == (0, "")
    assert "1 × classifier head" in out
    assert "step 131000" in isopix("verify", "igpt", "--data", "digits", "--limit", "8")[1]
    code, out, err = isopix("sample", "igpt", "-n", "2")
    assert code == (0 if start else 2), err
    assert isopix("reconstruct", "igpt", "--data", "digits", "-n", "2")[0] == (2 if start else 0)
    assert isopix("probe", "igpt", "--data", "digits", "--limit", "40")[0] == 0


def test_verify_names_a_file_that_was_changed(exported: Run) -> None:
    weights = next(Path("run/checkpoints").glob("step-*")) / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    code, _, err = exported("verify", str(weights.parent))
    assert code == 2
    assert "model.safetensors does not have the sha256 that the manifest says: altered" in err
