"""Run folders in which a file is missing, cut off, empty or a folder: what each verb that reads it says."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from isopix.reporting.run_record import read_run
from isopix.storage.run_folder import RunFolder
from isopix.verbs.report import result_kinds
from tests.golden.values import check_golden
from tests.smoke.conftest import Run, isopix
from tests.tiny_runs import TINY, cli

__all__ = ["isopix"]

TUNE = " ".join(["finetune ar generative_weight=1 checkpoint_every=2 --limit 60", *TINY])
MAKING = [f"{TUNE} --out run", f"{TUNE} --out other", "sample run -n 1", "sample run -n 1 --seed 1"]
READING = ["sample run -n 1", "evaluate run", "compare run --baseline other", "resume run"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = {
    "missing": Path.unlink,
    "cut off": cut,
    "empty": lambda path: path.write_bytes(b""),
    "a folder": as_folder,
}
SAVED = "classifier.safetensors model.safetensors manifest.json environment.json recipe.json state.json"
FILES = "data-sample.npz environment.json labeled-images.npy lock log.jsonl recipe.json test-images.npz"
CASES = [
    pytest.param(file, damage, marks=() if place % 4 == number else pytest.mark.integration)
    for place, file in enumerate(
        [
            *(*FILES.split(), "training-images.npy", "samples/*seed0*.json", "samples/*seed0*.png"),
            *(f"best/{name}" for name in SAVED.split()),
            *(f"checkpoints/step-00000004/{name}" for name in ("optimizer.safetensors", *SAVED.split())),
        ]
    )
    for number, damage in enumerate(DAMAGES)
]
INTACT: list[Any] = []
SIZES = re.compile(
    r"\d+ bytes, manifest.json has \d+|: (Unterminated|Expecting)[^;\n]*"
)  # of settings and times


@pytest.fixture(scope="module")
def runs(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fine-tuned run, sampled twice, and another that it can be compared with."""
    runs = tmp_path_factory.mktemp("damaged")
    shutil.copytree(pristine / "ar", runs / "ar")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(runs)
        for words in MAKING:
            cli(*words.split())
    return runs


@pytest.fixture
def folder(runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs, tmp_path / "copy"))


def outcome(isopix: Run) -> Any:
    """Return what each verb answers, then the results of a report, and the files that it cannot read."""
    answers: dict[str, Any] = {}
    for words in READING:
        code, out, err = isopix(*words.split())
        lines = [each for each in (err if code else out + err).splitlines() if "img/s" not in each]
        answers[words] = SIZES.sub("", "\n".join([f"{code}", *lines]))
    try:
        record = read_run(RunFolder.open(Path("run")), result_kinds())
        problems = [SIZES.sub("", each) for each in record.problems]
        answers["report"] = sorted(each.title for each in record.results), problems
    except (OSError, ValueError) as error:
        answers["report"] = SIZES.sub("", str(error))
    return answers


@pytest.mark.usefixtures("unchecked", "folder")
@pytest.mark.parametrize(("file", "damage"), CASES)
def test_a_damaged_file_is_named_by_every_verb_that_needs_it(file: str, damage: str, isopix: Run) -> None:
    if not INTACT:
        shutil.copytree("run", "kept")
        INTACT.append(outcome(isopix))
        check_golden("damage", "nothing", INTACT[0])
        shutil.rmtree("run")
        Path("kept").rename("run")
    [path] = Path("run").glob(file)
    DAMAGES[damage](path)
    check_golden("damage", f"{file} {damage}", outcome(isopix), INTACT[0])
