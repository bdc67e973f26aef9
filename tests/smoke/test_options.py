"""Every option changes the result of a command, and is recorded."""

import json
from pathlib import Path

import pytest
import torch

from isopix.plots import images as pictures
from isopix.runs.load import load_run
from tests.smoke.conftest import QUICK, Run

SMALL = [*QUICK, "data.limit=60"]
STRONG = [*SMALL, "steps=6", "lr=0.1"]  # its samples are far from uniform


@pytest.fixture
def trained(isopix: Run) -> Run:
    """The command line, in a folder with a run on digits."""
    code, _, err = isopix("pretrain", "igpt.digits", *STRONG, "--out", "run")
    assert code == 0, err
    return isopix


def saved_record(folder: str, isopix: Run, *words: str) -> dict:
    """Run a command and return the record that it adds to the run folder."""
    before = {path: path.stat().st_mtime_ns for path in Path(f"run/{folder}").glob("*.json")}
    code, _, err = isopix(words[0], "run", *words[1:])
    assert code == 0, err
    after = {path: path.stat().st_mtime_ns for path in Path(f"run/{folder}").glob("*.json")}
    [path] = [path for path in after if after[path] != before.get(path)]
    return json.loads(path.read_text()) | {"file": path}


def picture(values: dict) -> bytes:
    return values["file"].with_suffix(".png").read_bytes()


@pytest.mark.usefixtures("quick_probes")
def test_options_of_probe_are_recorded_and_change_the_numbers(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits", *SMALL, "--out", "run")[0] == 0
    ridge = ["--method", "ridge"]
    plain = saved_record("probes", isopix, "probe", *ridge)
    expected = {"features": "normed", "pool": "mean", "seed": 0, "layer": None, "mask_ensemble": 0}
    expected |= {"method": "ridge"}
    assert {name: plain["config"][name] for name in expected} == expected
    for words, changed in (
        ([*ridge, "--features", "residual"], {"features": "residual"}),
        ([*ridge, "--pool", "max"], {"pool": "max"}),
        ([*ridge, "--layer", "1"], {"layer": 1}),
        ([], {"method": "lbfgs"}),
    ):
        other = saved_record("probes", isopix, "probe", *words)
        assert {name: other["config"][name] for name in expected} == {**expected, **changed}
        assert other["network"]["layers"] != plain["network"]["layers"]


def test_sgd_caches_features_and_concatenated_layers_are_another_row(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits", *SMALL, "--out", "run")[0] == 0
    words = ("probe", "run", "--method", "sgd", "iterations=20", "--concat", "5")
    for action in ("written to", "read from"):
        code, out, err = isopix(*words)
        assert code == 0
        assert f"features {action} " in err
        assert "0-1 concatenated" in out


def test_options_of_sample_are_recorded_and_change_the_samples(trained: Run) -> None:
    plain = saved_record("samples", trained, "sample", "-n", "4")
    expected = {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 0, "count": 4}
    assert {name: {**plain, **plain["sampling"]}[name] for name in expected} == expected
    before = picture(plain)
    for words, changed in (
        (["--temperature", "0.2"], {"temperature": 0.2}),
        (["--top-k", "2"], {"top_k": 2}),
        (["--top-p", "0.3"], {"top_p": 0.3}),
        (["--seed", "1"], {"seed": 1}),
    ):
        other = saved_record("samples", trained, "sample", "-n", "4", *words)
        assert {name: {**other, **other["sampling"]}[name] for name in expected} == {**expected, **changed}
        assert picture(other) != before
    assert picture(saved_record("samples", trained, "sample", "-n", "4")) == before


@pytest.mark.parametrize(("words", "rows"), [((), 4), (("--rows", "3"), 3), (("--rows", "6"), 6)])
def test_complete_keeps_the_given_rows_and_samples_the_others(
    trained: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], rows: int
) -> None:
    drawn = []
    real = pictures.side_by_side

    def spy(parts, mask):
        drawn.append((parts["original"][0], mask, torch.stack(parts["completions"], 1)))
        return real(parts, mask)

    monkeypatch.setattr(pictures, "side_by_side", spy)
    values = saved_record("samples", trained, "complete", "-n", "2", "--each", "2", *words)
    [(originals, mask, completed)] = drawn
    assert (~mask).all(-1).sum(-1).tolist() == [rows, rows]
    assert values["each"] == completed.shape[1] == 2
    codec = load_run(Path("run"), device=torch.device("cpu")).network.codec
    given = codec.decode(codec.encode(originals))[:, None]
    differs = (completed != given).flatten(0, 2).any(0).any(-1)
    assert differs.tolist() == [False] * rows + [True] * (8 - rows)
