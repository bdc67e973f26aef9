"""Every option of a verb changes what the verb does, and the record says so."""

import json
from pathlib import Path

import pytest
import torch

from isopix.plots import images as pictures
from isopix.runs.load import load_run
from tests.smoke.conftest import QUICK, Run

SMALL = [*QUICK, "data.limit=60"]
STRONG = [*SMALL, "steps=6", "lr=0.1"]  # what it draws is far from uniform


@pytest.fixture
def trained(isopix: Run) -> Run:
    """The command line in a folder that holds a run of digits."""
    code, _, err = isopix("pretrain", "igpt.digits", *STRONG, "--out", "run")
    assert code == 0, err
    return isopix


def kept(folder: str, isopix: Run, *words: str) -> dict:
    """The one new record that a verb leaves in the run folder."""
    before = {path: path.stat().st_mtime_ns for path in Path(f"run/{folder}").glob("*.json")}
    code, _, err = isopix(words[0], "run", *words[1:])
    assert code == 0, err
    after = {path: path.stat().st_mtime_ns for path in Path(f"run/{folder}").glob("*.json")}
    [path] = [path for path in after if after[path] != before.get(path)]
    return json.loads(path.read_text())


def picture(values: dict) -> bytes:
    return Path("run/samples", values["picture"]).read_bytes()


def test_options_of_probe_are_recorded_and_change_the_numbers(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits", *SMALL, "--out", "run")[0] == 0
    ridge = ["--method", "ridge"]
    plain = kept("probes", isopix, "probe", *ridge)
    expected = {"stream": "n", "pool": "mean", "seed": 0, "layers": "all", "masks": 0}
    expected |= {"method": {"kind": "ridge"}}
    assert {name: plain["protocol"][name] for name in expected} == expected
    for words, changed in (
        ([*ridge, "--stream", "h"], {"stream": "h"}),
        ([*ridge, "--pool", "max"], {"pool": "max"}),
        ([*ridge, "--layers", "1"], {"layers": 1}),
        ([], {"method": {"kind": "lbfgs"}}),
    ):
        other = kept("probes", isopix, "probe", *words)
        assert {name: other["protocol"][name] for name in expected} == {**expected, **changed}
        assert other["network"]["layers"] != plain["network"]["layers"]


def test_sgd_keeps_features_and_joined_layers_are_one_more_row(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits", *SMALL, "--out", "run")[0] == 0
    words = ("probe", "run", "--method", "sgd", "--iterations", "20", "--layers", "best5")
    for told in ("kept in", "read from"):
        code, out, err = isopix(*words)
        assert code == 0
        assert f"trained: features {told} " in err
        assert "layers 0-1 joined" in out


@pytest.mark.usefixtures("quick_probes")
def test_validation_is_folded_back_into_a_record_of_its_own(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits", *SMALL, "--out", "run")[0] == 0
    plain = kept("probes", isopix, "probe", "--method", "ridge")
    folded = kept("probes", isopix, "probe", "--method", "ridge", "--fold-back")
    assert plain["folded"] is None
    assert folded["protocol"]["fold_back"]
    assert folded["network"] == plain["network"]
    best = folded["network"]["layers"][folded["network"]["best"]]
    assert folded["folded"]["strength"] == best["strength"]
    assert folded["folded"]["objective"] != best["objective"]
    code, out, _ = isopix("probe", "run", "--method", "ridge", "--fold-back")
    assert code == 0
    assert "folded back" in out
    assert isopix("report", "run")[0] == 0
    assert "With validation folded back, layer" in Path("run/report.html").read_text()


def test_masks_of_probe_vote(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits_bert", *SMALL, "--out", "run")[0] == 0
    values = kept("probes", isopix, "probe", "--masks", "3", "--method", "ridge")
    assert values["protocol"]["masks"] == 3
    assert all(layer["ensemble"]["single"] > 0 for layer in values["network"]["layers"])
    assert "modal vote of 3 masks" in isopix("report", "run")[1] + Path("run/report.html").read_text()


def test_options_of_sample_are_recorded_and_change_the_picture(trained: Run) -> None:
    plain = kept("samples", trained, "sample", "-n", "4")
    expected = {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 0, "count": 4}
    assert {name: plain[name] for name in expected} == expected
    before = picture(plain)
    for words, changed in (
        (["--temperature", "0.2"], {"temperature": 0.2}),
        (["--top-k", "2"], {"top_k": 2}),
        (["--top-p", "0.3"], {"top_p": 0.3}),
        (["--seed", "1"], {"seed": 1}),
    ):
        other = kept("samples", trained, "sample", "-n", "4", *words)
        assert {name: other[name] for name in expected} == {**expected, **changed}
        assert picture(other) != before
    assert picture(kept("samples", trained, "sample", "-n", "4")) == before


@pytest.mark.parametrize(("words", "rows"), [((), 4), (("--rows", "3"), 3), (("--rows", "6"), 6)])
def test_complete_keeps_the_given_rows_and_paints_the_others(
    trained: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], rows: int
) -> None:
    drawn = []
    real = pictures.completions

    def spy(originals, completed, **options):
        drawn.append((originals, completed, options))
        return real(originals, completed, **options)

    monkeypatch.setattr(pictures, "completions", spy)
    values = kept("samples", trained, "complete", "-n", "2", "--each", "2", *words)
    [(originals, completed, options)] = drawn
    assert values["rows"] == options["rows"] == rows
    assert values["each"] == options["each"] == 2
    codec = load_run(Path("run"), device=torch.device("cpu")).network.codec
    given = codec.decode(codec.encode(originals)).repeat_interleave(2, 0)
    differs = (completed != given).flatten(0, 1).any(0).any(-1)
    assert differs.tolist() == [False] * rows + [True] * (8 - rows)
