"""Laws of locks: no verb writes into a folder that another process holds, nor by what was there before."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from isopix.cli.main import main
from isopix.runs.resume import resume_run
from isopix.runs.training_log import RunObserver
from isopix.storage.atomic import LOCK_FILE, exclusive_lock
from isopix.storage.run_folder import FOLDER_LOCK
from isopix.studies.inductive_bias.study import BiasStudy
from tests.laws.test_resume import recipe
from tests.tiny_runs import TINY, Copy, cli
from tests.trained import CPU, StopAt, logged, resume, train

QUICK = " ".join(TINY)
SEARCH = f"pretrain igpt.digits {QUICK} lr=search:0.01..0.01 --out out"
LOCKED = {  # commands, and the folder and the lock that another process holds
    "resume ar": ("ar", LOCK_FILE),
    f"pretrain igpt.digits {QUICK} --out out": ("out", LOCK_FILE),
    f"finetune ar {QUICK} --out out": ("out", LOCK_FILE),
    SEARCH: ("out/selection", FOLDER_LOCK),
    f"reproduce igpt.figure2 --data digits --out out {QUICK}": ("out", FOLDER_LOCK),
    "reproduce isotropic.study --data digits --trials conv-pix2vec-1 --seeds 1 --out out": ("out", LOCK_FILE),
    "probe ar --labels 1 --subsets 1 --method ridge --finetune-steps 1": ("ar/low-data/*", FOLDER_LOCK),
}


def run(words: str, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys, "argv", ["isopix", *words.split()])
    main()


def contents(folder: Path) -> dict[str, bytes]:
    files = [each for each in folder.rglob("*") if each.is_file() and "lock" not in each.name]
    return {str(each): each.read_bytes() for each in files}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("words", LOCKED)
def test_a_folder_in_use_is_refused_and_left_as_it_is(
    words: str,
    copy_of: Copy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    copy_of("ar", "ar")
    where, name = LOCKED[words]
    if where.endswith("*"):
        run(words, monkeypatch)
        [where] = [str(each) for each in Path().glob(where) if each.is_dir()]
    Path(where).mkdir(parents=True, exist_ok=True)
    with exclusive_lock(Path(where), "folder", name=name):
        before = contents(tmp_path)
        with pytest.raises(SystemExit):
            run(words, monkeypatch)
        assert "in use by process" in capsys.readouterr().err
        assert contents(tmp_path) == before


@pytest.mark.usefixtures("unchecked")
def test_a_run_is_locked_until_its_training_ends(tmp_path: Path) -> None:
    refused = []

    def stop() -> bool:
        with pytest.raises(ValueError, match="in use by process"):
            resume(tmp_path / "run")
        refused.append("resume")
        return len(refused) == 2

    train(recipe("igpt.digits", []), tmp_path / "run", observer=RunObserver(stop=stop))
    resume_run(tmp_path / "run", device=CPU, observer=RunObserver(stop=stop))
    assert len(refused) > 2


def meanwhile(work: Callable[[], Any], patch: pytest.MonkeyPatch) -> None:
    """Let another process do this work just before the first lock that is taken from now on."""
    acquire, waiting = FileLock.acquire, [work]

    def acquired(lock: FileLock, *given: Any, **options: Any) -> Any:
        while waiting:
            waiting.pop()()
        return acquire(lock, *given, **options)

    patch.setattr(FileLock, "acquire", acquired)


@pytest.mark.usefixtures("unchecked")
def test_what_another_process_has_done_before_the_lock_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    out = Path("run")
    train(recipe("igpt.digits", []), out, observer=RunObserver(stop=StopAt(2)))
    meanwhile(lambda: resume(out), monkeypatch)
    assert resume(out).finished
    assert [each["step"] for each in logged(out, kind="train")] == list(range(1, 13))

    Path("empty").mkdir()
    meanwhile(lambda: train(recipe("igpt.digits", []), Path("empty")), monkeypatch)
    with pytest.raises(ValueError, match="is not empty"):
        train(recipe("igpt.digits", []), Path("empty"))
    assert any(Path("empty/checkpoints").iterdir())

    meanwhile(lambda: cli(*SEARCH.split(), "batch_size=4"), monkeypatch)
    with pytest.raises(SystemExit):
        run(SEARCH, monkeypatch)
    assert "batch_size=4" in capsys.readouterr().err

    def create(pattern: str) -> None:
        with BiasStudy.create(Path("study"), BiasStudy.planned("tiny", data="digits", pattern=pattern)):
            pass

    create("conv-*-1")
    meanwhile(lambda: create("mixer-*-1"), monkeypatch)
    create("transformer-*-1")
    kinds = {each.partition("-")[0] for each in BiasStudy.open(Path("study")).plan.trials}
    assert len(kinds) == 3
