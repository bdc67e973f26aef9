"""What goes wrong in a command is one line, and its exit code; messages besides the results."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from isopix.recipes import registry
from isopix.storage import log
from isopix.train import config
from tests.smoke.conftest import QUICK, Run, done, refused


def test_a_run_folder_in_use(isopix: Run) -> None:
    done(isopix("pretrain", "igpt.digits", "--out", "r", *QUICK))
    program = (
        "from pathlib import Path; from isopix.storage.run_folder import RunFolder\n"
        "with RunFolder.open(Path('r')).lock(): print('held', flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        code, _, err = isopix("resume", "r")
        holder.communicate("\n")
    assert code == 2
    assert err.startswith(f"isopix: run folder r is in use by process {holder.pid} on host ")


def test_a_full_disk(isopix: Run) -> None:
    """A file-size limit simulates a full disk."""
    # The image cache is no part of this.
    assert isopix("pretrain", "igpt.digits", "--out", "warm", *QUICK)[0] == 0
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        code, _, err = isopix("pretrain", "igpt.digits", "--out", "r", "steps=2", "batch_size=4")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (code, err.count("\n")) == (1, 1)
    assert "checkpoint r/checkpoints/step-00000000" in err
    assert not list(Path("r/checkpoints").glob(".tmp*"))


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (
            "on_nonfinite=stop",
            "isopix: the loss or its gradient is not finite at step 2; the last checkpoint is "
            "r/checkpoints/step-00000000; try a lower optimizer.lr, or train.on_nonfinite=rollback\n",
        ),
        ("on_nonfinite=rollback", "; try a lower optimizer.lr\n"),
    ],
)
def test_a_non_finite_loss(isopix: Run, setting: str, expected: str) -> None:
    words = ["lr=1e30", "steps=9", "batch_size=4", "depth=1", "width=16", setting]
    code, _, err = isopix("pretrain", "igpt.digits", "--out", "r", *words)
    assert (code, err.endswith(expected)) == (1, True)
    assert ("after 10 rollbacks to step 0" in err) == (setting == "on_nonfinite=rollback")
    assert [path.name for path in Path("r/checkpoints").iterdir()] == ["step-00000000"]


def raising(error: BaseException):
    def stub(*_: object, **__: object) -> None:
        raise error

    return stub


def test_a_second_ctrl_c_prints_the_resume_command(isopix: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isopix.runs.resume.train_recipe", raising(KeyboardInterrupt()))
    refused(isopix("pretrain", "igpt.digits", "--out", "my run"), "interrupted", code=130)

    def interrupted(*_: object, **__: object) -> None:
        Path("my run/checkpoints/step-00000025").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr("isopix.runs.resume.train_recipe", interrupted)
    message = "interrupted; last checkpoint: {}/checkpoints/step-00000025; resume with: isopix {}"
    answer = isopix("pretrain", "igpt.digits", "--out", "my run")
    refused(answer, message.format("my run", "resume 'my run'"), code=130)
    Path("runs/demo/1/ar").mkdir(parents=True)
    Path("my run/checkpoints").rename("runs/demo/1/bert")
    Path("runs/demo/1/bert").rename("runs/demo/1/ar/checkpoints")
    Path("runs/demo/1/ar/recipe.json").touch()
    monkeypatch.setattr("isopix.verbs.demo.train_side_by_side", raising(KeyboardInterrupt()))
    refused(isopix("demo", "--seed", "0"), message.format("runs/demo/1/ar", "demo --seed 0"), code=130)


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (KeyboardInterrupt(), "interrupted", 130),
        (RuntimeError("the compiler failed\nand says why\nin a thousand lines"), "the compiler failed", 1),
        (RuntimeError(), "RuntimeError", 1),
        (NotADirectoryError(20, "Not a directory", "a.txt/x"), "a.txt/x: Not a directory", 1),
    ],
)
def test_errors_and_interrupts_are_one_line(
    isopix: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, message: str, code: int
) -> None:
    monkeypatch.setattr(registry, "resolve", raising(error))
    refused(isopix("recipe", "show", "igpt.tiny"), message, code=code)


def test_an_unusable_compiler_is_rejected_before_training(
    isopix: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.__file__", "/my venv/torch/__init__.py")
    message = (
        "compile=true does not work with torch in a path with a space (/my venv/torch), "
        "from which its compiler cannot link; use compile=false, or install torch elsewhere"
    )
    refused(isopix("pretrain", "igpt.digits", "--out", "r", "compile=true"), message)
    assert not Path("r").exists()


REASON = "not a JPEG, PNG, WEBP, BMP, GIF or TIFF image"


@pytest.mark.usefixtures("quick_probes")
def test_the_next_commands_are_quoted_and_apply_to_the_run(
    isopix: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = done(isopix("pretrain", "igpt.digits", "--out", "my run", *QUICK))
    assert out.endswith("next: isopix probe 'my run' ; isopix sample 'my run' ; isopix report 'my run'\n")
    out = done(isopix("pretrain", "igpt.digits_bert", "--data", "photos/cats", "--out", "flat", *QUICK))
    assert out.endswith("next: isopix reconstruct flat ; isopix report flat\n")
    real = config.runtime_environment
    monkeypatch.setattr(config, "runtime_environment", lambda device: {**real(device), "threads": 99})
    done(isopix("resume", "flat"))  # a finished run, of which no differences are noted
    assert [each for each in log.read_log(Path("flat/log.jsonl")) if each["kind"] == "note"] == []


@pytest.mark.usefixtures("quick_probes")
def test_unreadable_files_are_reported_by_every_command(isopix: Run, workplace: Path) -> None:
    (workplace / "photos" / "dogs" / "broken.png").write_bytes(b"no picture")
    training = ("pretrain", "igpt.digits", "--data", "photos", "--out", "r", *QUICK)
    code, _, err = isopix(*training)
    known = "isopix: 1 of 61 images cannot be read, above the limit of 1%; first: photos/dogs/broken.png"
    assert (code, err.startswith(known), err.count("\n"), Path("r").exists()) == (2, True, 1, False)
    for i in range(60):  # so that one bad file is less than a hundredth
        Image.new("L", (8, 8), 4 * i).save(workplace / "photos" / "cats" / f"more{i}.png")
    message = f"skipped photos/dogs/broken.png: {REASON}\n"
    fit = ["palette", "fit", "--data", "photos", "--colors", "8", "--size", "8", "8", "--out", "p.npz"]
    assert isopix(*fit, "--json")[2] == message
    assert message in done(isopix(*training))
    assert message in isopix("probe", "r", "--data", "photos")[2]
    listed = Path("r/bad-files.csv").read_text().splitlines()
    assert listed == ["path,reason", f'photos/dogs/broken.png,"{REASON}"']
