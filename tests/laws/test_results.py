"""Laws over the results of all verbs: what is printed as JSON is the record, and the record is read again."""

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import isopix
from isopix.cli import main as command
from isopix.storage.result import Result
from isopix.verbs import VERBS
from tests.golden.values import check_golden, contents
from tests.smoke.conftest import known_throughput, quick_figures, quick_probes
from tests.tiny_runs import cli
from tests.unit.interop import bundles
from tests.unit.runs.test_measurements import unmeasured

__all__ = ["known_throughput", "quick_figures", "quick_probes"]

SMALL = "evaluate_images=16 num_test_images=16"
QUICK = f"steps=2 depth=1 width=16 batch_size=8 log_every=1 data.limit=60 {SMALL}"
TUNED = f"--limit 60 steps=2 batch_size=8 patience=null {SMALL}"
STUDY = f"precision=fp32 steps=2 width=8 batch_size=8 data.size=8 data.limit=60 {SMALL}"

RUNS = [  # of which the calls below measure
    f"pretrain igpt.digits --out ar {QUICK}",
    f"pretrain igpt.digits_bert --out bert {QUICK}",
    f"finetune ar --out tuned {TUNED}",
    f"finetune ar --out other lr=0.1 {TUNED}",
    "export ar exported",
]
CALLS = {
    "analyze": "ar --limit 4 --only attention_maps",
    "claims": "--paper vit --runs protocols",
    "compare": "tuned --baseline other",
    "complete": "ar -n 2 --each 1",
    "data": "digits --out shown",
    "doctor": "",
    "evaluate": "tuned",
    "evaluate ar": "--limit 8",
    "export": "ar again",
    "features": "ar --limit 10 --out table.csv",
    "finetune": f"ar --out finetuned {TUNED}",
    "import": "exported huggingface",
    "list": "",
    "neighbors": "ar --limit 20 --num-neighbors 2",
    "palette": "fitted.npz --data digits --colors 4 --size 8 8",
    "plan": "igpt.digits",
    "predict": "tuned --out predictions.csv",
    "pretrain": f"igpt.digits --out pretrained {QUICK}",
    "probe": "ar --method ridge --refit-on-validation",
    "probe ar": "--labels 1 2 --subsets 2 --method ridge",
    "reconstruct": "bert -n 2",
    "report": "ar bert --out page.html",
    "reproduce": f"igpt.figure2 --data digits --out protocols {QUICK}",
    "reproduce igpt.figure2": "--plan --data digits --pretrained igpt-l=ar",
    "reproduce isotropic.study": f"--data digits --trials conv-pix2vec-1 --seeds 1 --out bias {STUDY}",
    "resume": "ar",
    "sample": "ar -n 2 --nearest",
    "score": "ar --limit 10 --maps 1",
    "show": "igpt.digits depth=6",
}
OPTIONS = [  # of commands whose options `test_options` does not change
    "compare tuned --baseline other --out compared.json",
    "evaluate bert --limit 8 --precision bf16 --seed 1",
    "export ar hf://me/mine --format isopix",
    "export ar saved --format isopix",
    "import exported data --data digits",
    "import exported squashed --squash",
    "import model.ckpt-1 data2 --palette kmeans_centers.npy --data digits",
    "probe ar --method knn neighbors_grid=[3] temperature=1",
    "probe ar --method lbfgs l2_grid=[1.0]",
    "probe ar --method sgd iterations=30 batch_size=7 lr_grid=[0.1] momentum=0.5",
    "probe ar --labels 2 --subsets 1 --layer 1 --pool flatten --features residual --no-start-token",
    "probe ar --labels 2 --subsets 1 --method ridge --limit 40 --finetune-steps 1",
    "sample ar -n 2 --out own.png",
    "complete ar -n 2 --each 1 --out new/pictures",
    "list protocols",
    "report ar bert tuned --out three.html",
    "reproduce igpt.figure2 --plan --scale small --pretrain-data cifar100",
    "reproduce isotropic.study --plan --trials mixer-* --seeds 1 width=16",
    "show igpt.digits width=32 --file small.yaml",
]
# `demo` returns what `report` does, `studio` nothing.
NOT_CALLED = {"demo", "studio"}
# What they write has records of its own: a run folder, or another's model.
NO_RECORD = {"pretrain", "resume", "finetune", "import", "export"}

UNMEASURED = {"list", "report", "reproduce isotropic.study"}  # published numbers; each trial has records

MARKS = {"reproduce isotropic.study": pytest.mark.integration}

Run = Callable[[str], tuple[Result, dict[str, Any]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs, and with files of others."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        np.save("kmeans_centers.npy", bundles.LEVELS)
        network = bundles.variables(depth=1, width=16, heads=2, colors=27, positions=16)
        bundles.write(Path("model.ckpt-1"), network)
        for words in RUNS:
            cli(*words.split())
    return folder


@pytest.fixture
def run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Return a function that runs a command, and returns its result and its JSON."""
    hub = SimpleNamespace(create_repo=create_repo, upload_folder=lambda **_: None)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.chdir(shutil.copytree(folder, tmp_path / "copy"))

    def call(words: str) -> tuple[Result, dict[str, Any]]:
        results: list[Result] = []
        show = command.print_result

        def kept(result: Result, *, json: bool) -> None:
            results.append(result)
            show(result, json=json)

        monkeypatch.setattr(command, "print_result", kept)
        monkeypatch.setattr(sys, "argv", ["isopix", *words.split(), "--json"])
        capsys.readouterr()
        with suppress(SystemExit):  # without a result if the call is wrong
            command.main()
        [result] = results
        return result, json.loads(capsys.readouterr().out)

    return call


def create_repo(name: str, *, private: bool, exist_ok: bool) -> str:
    return f"{name} private={private}"


@pytest.mark.parametrize("option", ["", "--format isopix"])
def test_a_repository_is_private_if_asked(run: Run, option: str) -> None:
    for private in (False, True):
        _, printed = run(f"export ar hf://me/mine {option} {'--private' * private}")
        assert printed["url"] == f"me/mine private={private}"


def test_every_verb_is_called() -> None:
    words = {word if word in VERBS else word.split(maxsplit=1)[0] for word in CALLS}
    assert words == set(VERBS) - NOT_CALLED


@pytest.mark.usefixtures("known_throughput")
@pytest.mark.parametrize("words", OPTIONS)
def test_options_are_kept(run: Run, words: str) -> None:
    Path("small.yaml").write_text("train: {steps: 7}\nwidth: 48\nblock:\n  heads: 4")
    result, _ = run(words)
    check_golden("results", words, [result.record(), str(result).splitlines(), contents(result.path)])


@pytest.mark.usefixtures("quick_probes", "quick_figures", "known_throughput")
@pytest.mark.parametrize("word", [pytest.param(each, marks=MARKS.get(each, ())) for each in CALLS])
def test_json_is_the_record_and_the_record_is_read_again(run: Run, tmp_path: Path, word: str) -> None:
    result, printed = run(f"{word} {CALLS[word]}")
    if word != "doctor":  # which describes the machine
        check_golden("results", word, [result.record(), str(result).splitlines(), contents(result.path)])
    assert word in UNMEASURED or not [*unmeasured(printed, word)]
    returned = get_type_hints(getattr(isopix, result.call["verb"]))["return"]
    assert type(result) in (get_args(returned) or [returned])
    saved = result.saved(tmp_path) if result.path is None or word in NO_RECORD else result
    again = type(result).read(Path(saved.path or ""))
    assert again.record() == result.record()
    assert (again.path, again.title) == (saved.path, result.title)
    assert [each.text() for each in again.tables()] == [each.text() for each in result.tables()]
    path = None if result.path is None else str(result.path)
    assert printed == {**json.loads(json.dumps(result.record())), "path": path}
    assert "path" not in result.record()
    assert repr(result)
