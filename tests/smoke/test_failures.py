"""What goes wrong in a command is one line, and its exit code; messages besides the results."""

import shlex
from pathlib import Path

import pytest
from PIL import Image, UnidentifiedImageError

from isopix.data.decode import failure_reason
from isopix.recipes import registry
from tests.smoke.conftest import QUICK, Run, done, refused
from tests.smoke.test_extend import EXAMPLES


def test_a_non_finite_loss_after_every_rollback(isopix: Run) -> None:
    words = ["lr=1e30", "steps=9", "batch_size=4", "depth=1", "width=16", "on_nonfinite=rollback"]
    code, _, err = isopix("pretrain", "igpt.digits", "--out", "r", *words)
    assert (code, err.count("\n"), err.endswith("; try a lower optimizer.lr\n")) == (1, 1, True)
    assert "after 10 rollbacks to step 0" in err
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
    monkeypatch.setattr("isopix.runs.resume.check_loggers", lambda names: None)  # which are not installed
    files = [str((EXAMPLES / name).resolve()) for name in ("gated_mlp.py", "gray_codec.py")]
    words = ["--logger", "wandb", "--logger", "tensorboard"]
    plugins = ["--plugin", files[0], "--plugin", files[1]]
    answer = isopix("pretrain", "igpt.digits", "--out", "my run", *plugins, *words)
    refused(answer, message.format("my run", shlex.join(["resume", "my run", *words])), code=130)
    Path("runs/demo/ar").mkdir(parents=True)
    Path("my run/checkpoints").rename("runs/demo/ar/checkpoints")
    Path("runs/demo/ar/recipe.json").touch()
    monkeypatch.setattr("isopix.verbs.report.train_side_by_side", raising(KeyboardInterrupt()))
    refused(isopix("demo", "--seed", "0"), message.format("runs/demo/ar", "demo --seed 0"), code=130)


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (KeyboardInterrupt(), "interrupted", 130),
        (RuntimeError("the compiler failed\nand says why\nin a thousand lines"), "the compiler failed", 1),
        (RuntimeError(), "RuntimeError", 1),
        (MemoryError("Unable to allocate 9 GiB"), "Unable to allocate 9 GiB", 1),
        (NotADirectoryError(20, "Not a directory", "a.txt/x"), "a.txt/x: Not a directory", 1),
    ],
)
def test_errors_and_interrupts_are_one_line(
    isopix: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, message: str, code: int
) -> None:
    monkeypatch.setattr(registry, "resolve", raising(error))
    refused(isopix("show", "igpt.tiny"), message, code=code)


REASON = failure_reason(UnidentifiedImageError())


def test_the_next_commands_are_quoted_and_apply_to_the_run(isopix: Run) -> None:
    out = done(isopix("pretrain", "igpt.digits", "--out", "my run", *QUICK))
    assert out.endswith("next: isopix probe 'my run' ; isopix sample 'my run' ; isopix report 'my run'\n")
    out = done(isopix("pretrain", "igpt.digits_bert", "--data", "photos/cats", "--out", "flat", *QUICK))
    assert out.endswith("next: isopix reconstruct flat ; isopix report flat\n")


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
    fit = ["palette", "p.npz", "--data", "photos", "--colors", "8", "--size", "8", "8"]
    assert isopix(*fit, "--json")[2] == message
    assert message in done(isopix(*training))
    assert message in isopix("probe", "r", "--data", "photos")[2]
    listed = Path("r/bad-files.csv").read_text().splitlines()
    assert listed == ["path,reason", f'photos/dogs/broken.png,"{REASON}"']
