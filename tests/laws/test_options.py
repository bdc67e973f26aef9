"""Laws of options: another value of any option of a verb changes its result, and a limit holds everywhere."""

import inspect
import json
import shutil
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from PIL import Image

from isopix.cli import main as command
from isopix.data import load
from isopix.data.dataset import DataConfig
from isopix.storage.result import Result
from isopix.verbs import VERBS
from tests.golden.values import PASSING, check_golden, contents
from tests.laws.test_stores import _logged
from tests.laws.test_verbs import PACKAGE
from tests.smoke.conftest import known_throughput
from tests.tiny_runs import cli

__all__ = ["known_throughput"]

QUICK = (
    "steps=2 depth=2 width=16 batch_size=8 log_every=1 evaluate_every=1 evaluate_images=16 num_test_images=16"
)
RUNS = [
    f"pretrain igpt.digits --out ar --limit 60 {QUICK}",
    f"pretrain igpt.digits_bert --out bert --limit 60 {QUICK}",
    f"finetune bert --out tuned lr=0.01 patience=null --limit 60 {QUICK}",
    "palette palette.npz --data digits --colors 6 --size 8 8 --limit 20",
]
CALLS = {  # what all calls of a verb have
    "analyze": "ar --limit 4 --only attention_maps --only attention_distance",
    "complete": "bert --count 2 --each 2 --iterations 3",
    "data": "translated-digits --limit 10",
    "evaluate": "tuned",
    "features": "ar --limit 10",
    "finetune": f"ar {QUICK} --labels 2 --limit 40",
    "neighbors": "ar --limit 20 --num-neighbors 3 --pictures 2",
    "palette": "palette.npz --data digits --size 8 8 --limit 20",
    "plan": "igpt.digits",
    "predict": "tuned",
    "pretrain": f"igpt.digits {QUICK} --limit 40",
    "probe": "ar --limit 40 --method ridge",
    "reconstruct": "bert --count 4",
    "sample": "ar --count 2",
    "score": "bert --limit 8 --masks 2 --maps 1",
}
FEW_LABELS = "ar --limit 40 --method ridge --labels 2 --subsets 2"
OWN_CALLS = {
    "finetune --refit-on-validation": f"ar {QUICK} --limit 40",
    "probe --finetune-steps": FEW_LABELS,
    "probe --labels": FEW_LABELS,
    "probe --subsets": FEW_LABELS,
    "score --limit": "bert --masks 2",
    "probe --mask-ensemble": "bert --limit 40 --method ridge",
}
LIMIT = 30
# Another value of each option, whatever the verb.
OTHERS = f"""
--colors 5; --concat 2; --count 3; --data other.npz; --each 1;
--features residual; --file settings.json; --finetune-steps 1; --from ar; --from-scratch; --image 1;
--iterations 2; --labels 3; --layer 2; --limit {LIMIT}; --maps 2; --mask random:0.5; --mask-ensemble 3;
--masks 3; --method lbfgs; --mfu 0.3; --nearest; --no-start-token; --num-neighbors 2;
--only attention_rollout; --order random; --palette palette.npz; --pictures 1; --pool flatten;
--position 1,1; --precision bf16; --price 2; --probe-every 1; --refit-on-validation; --rows 3; --seed 5;
--size 12 12; --split train; --subset 1; --subsets 3; --temperature 0.5;
--threshold 2; --top-k 2; --top-p 0.3
"""
# Where it runs, is written or logged to; a class token's attention; labels, queries and speed (unit tests).
NOT_TRIED = {
    "--compile",
    "--device",
    "--logger",
    "--minutes",
    "--out",
    "--renormalize",
    "--label-column",
    "--query",
}
# Echoes of options, and texts with them.
ECHOES = {"call", "config", "label", "next", "passes", *PASSING}
ECHOES |= {"resume", "sampling", "selection", "source", "warnings"}
VALUES = {words.split()[0]: words.split() for words in OTHERS.split(";")}
OPTIONS = {name.removeprefix("--").replace("-", "_") for name in VALUES}
# Samples on CPUs without instructions for bf16.
SAME = {"complete --precision", "sample --precision"}


def option(parameter: inspect.Parameter) -> str:
    own = [
        name for extra in get_args(parameter.annotation)[1:] for name in getattr(extra, "name", None) or ()
    ]
    return own[0] if own else f"--{parameter.name.replace('_', '-')}"


PAIRS = [
    (verb, name)
    for verb in CALLS
    for each in inspect.signature(VERBS[verb].function).parameters.values()
    if (name := option(each).replace("--start-token", "--no-start-token")) not in NOT_TRIED
    and (each.kind is each.KEYWORD_ONLY or name == "--count")
    and f"{verb} {name}" not in SAME
]
OUT = count()
SPLITS = ("train", "validation", "test")


def write(path: str, limit: int, *changed: str) -> None:
    """Write a dataset of three splits, of which the images of some may be changed."""
    whole = load.load_dataset(DataConfig(rows=8, cols=8, limit=limit))
    arrays = {}
    for name in SPLITS:
        split = getattr(whole, name)
        images = split.images[:].permute(0, 2, 3, 1).numpy()
        arrays[f"x_{name}"] = 255 - images if name in changed else images
        arrays[f"y_{name}"] = split.labels.numpy()
    np.savez(path, **arrays)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs, settings, and other images of the same classes."""
    folder = tmp_path_factory.mktemp("options")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in RUNS:
            cli(*words.split())
        write("other.npz", 100, *SPLITS)
        Path("settings.json").write_text(
            json.dumps({"train": {"accumulate": 2}, "data": {"augment": "pad_crop_flip"}})
        )
    return folder


def words_of(verb: str, name: str, values: list[str]) -> list[str]:
    """Return the words of a verb's call, with these values of an option instead of its own."""
    given = " ".join(["", *OWN_CALLS.get(f"{verb} {name}", CALLS[verb]).split()]).split(" --")
    kept = [each for each in given if not values or each.split(" ")[0] != name.removeprefix("--")]
    words = [verb, *" --".join(kept).split(), *values]
    needs_out = inspect.signature(VERBS[verb].function).parameters.get("out")
    out = ["--out", f"out{next(OUT)}{'.csv' * (verb in ('features', 'predict'))}"]
    return words + out * (needs_out is not None and needs_out.default is needs_out.empty)


def call(words: list[str], patch: pytest.MonkeyPatch) -> Result:
    results: list[Result] = []
    patch.setattr(command, "print_result", lambda result, json: results.append(result))
    patch.setattr(sys, "argv", ["isopix", *words])
    with suppress(SystemExit):  # without a result if the call is wrong
        command.main()
    return results[0]


def outcome(result: Result) -> Any:
    """Return what a result and its files contain, without echoes of options."""
    path = Path(result.path or "none")
    names = sorted(each.name for each in path.iterdir()) if path.is_dir() else []
    files = {name: Image.open(path / name).tobytes() if ".png" in name else b"" for name in names}
    table = path.read_bytes() if path.suffix == ".csv" else b""
    log = _logged(path) if "log.jsonl" in files else []
    log += [json.loads(each.read_text()) for each in sorted(path.glob("probes/history/*.json"))]
    unsaved = {
        name: value.numpy().tolist() if isinstance(value, torch.Tensor) else value.tobytes()
        for name, value in vars(result).items()
        if isinstance(value, torch.Tensor | Image.Image)
    }
    return (plain(result.record()), table), plain(log), unsaved, files


def shown(result: Result) -> Any:
    """Return all that a result is, and that it shows."""
    return result.record(), str(result).splitlines(), outcome(result)[1:], contents(result.path)


def plain(value: Any, echoes: set[str] = OPTIONS) -> Any:
    """Return plain values without those of options, and of the moment."""
    if isinstance(value, list):
        return [plain(each, set()) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: plain(each)
        for key, each in value.items()
        if key not in ECHOES and (isinstance(each, list | dict) or key not in echoes)
    }


def test_every_option_has_another_value() -> None:
    assert {name for _, name in PAIRS} == set(VALUES)


BASES: dict[str, Any] = {}


@pytest.mark.usefixtures("unchecked", "known_throughput")
@pytest.mark.parametrize(("verb", "name"), PAIRS)
def test_another_value_changes_the_result(
    verb: str, name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shutil.copytree(folder, tmp_path / "copy"))  # whatever other tests have left there
    base = words_of(verb, name, [])
    key = " ".join(base).partition(" --out")[0]
    if key not in BASES:
        BASES[key] = outcome(found := call(base, monkeypatch)), found.path, shown(found)
        check_golden("options", key, BASES[key][2])
    limits, limited = set(), load._limited
    monkeypatch.setattr(
        load, "_limited", lambda whole, config: limits.add(config.limit) or limited(whole, config)
    )
    result = call(words_of(verb, name, VALUES[name]), monkeypatch)
    assert outcome(result) != BASES[key][0]
    if name != "--precision":  # the processor decides how products of bf16 are rounded
        check_golden("options", f"{verb} {name}", shown(result), BASES[key][2])
    if result.path is not None and result.path.is_file():
        assert result.path != BASES[key][1], "one replaces the other"
    of_training = {60} if verb in ("neighbors", "score") else set()
    assert name != "--limit" or limits <= {LIMIT, *of_training}


@pytest.mark.usefixtures("unchecked")
def test_the_command_that_resumes_has_every_logger_and_no_plugin(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    plugins = PACKAGE.parent / "examples" / "extend"
    own = [f"--plugin {plugins / name}.py" for name in ("center_mask", "lda_probe")]
    given = ["--logger tensorboard", "--device cpu"]
    result = call([*words_of("pretrain", "", []), *" ".join(own + given).split()], monkeypatch)
    assert all(each in result.record()["resume"] for each in given)
    assert "--plugin" not in result.record()["resume"], "the run loads its own"
