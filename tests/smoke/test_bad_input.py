"""Wrong input exits with code 2, or 1 for failures, and one line: what was given and what is allowed."""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from isopix.recipes.registry import listing
from isopix.storage import checkpoint
from tests.smoke.conftest import QUICK, Run

SOURCES = (
    "a folder of images, tar files, Arrow files, Parquet files, an image, OpenAI's .npy files or an .npz file"
)
NAMES = "digits, translated-digits, cifar10, cifar100, stl10, imagenet-1k, tiny-imagenet"


def refused(result: tuple[int, str, str], message: str, *, code: int = 2) -> None:
    """Assert that standard error is this one line."""
    assert result[2] == f"isopix: {message}\n"
    assert result[0] == code


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--mask-ensemble", "5"],
            "--mask-ensemble is 5, but an autoregressive model masks nothing; allowed: 0",
        ),
        (["--mask-ensemble", "-1"], "--mask-ensemble is -1; allowed: 0 or more"),
        (["--concat", "-1"], "--concat is -1; allowed: 0 or more"),
        (["--concat", "5", "--layer", "1"], "--concat 5 needs all layers, and layer 1 is set"),
        (["--layer", "best"], "--layer is 'best'; it must be an integer"),
        (["--layer", "7"], "--layer 7 does not exist; layers are 0 to 1"),
        (["--method", "svm"], "--method is 'svm'; allowed: adam, knn, lbfgs, ridge, sgd"),
    ],
)
def test_wrong_probe_options(isopix: Run, words: list[str], message: str) -> None:
    assert isopix("pretrain", "igpt.digits", "--out", "r", *QUICK, "data.limit=20")[0] == 0
    refused(isopix("probe", "r", *words), message)


def test_unknown_recipe(isopix: Run) -> None:
    message = f"unknown recipe 'igpt.tinny'; did you mean 'igpt.tiny'? recipes: {', '.join(listing())}"
    refused(isopix("plan", "igpt.tinny"), message)


def test_unknown_field(isopix: Run) -> None:
    message = (
        "unknown setting 'model.block.hedas'; did you mean 'model.block.heads'? "
        "settings of model.block: kind, norm, heads, attention_bias, qkv_bias, dropout, attention_dropout, "
        "mlp"
    )
    refused(isopix("pretrain", "igpt.digits", "--out", "r", "block.hedas=2"), message)


@pytest.mark.parametrize(
    ("verb", "setting", "message"),
    [
        ("pretrain", "class_token=true", "class_token needs a network that is not causal"),
        ("finetune", "class_token=true", "class_token needs a network that is not causal"),
        (
            "finetune",
            "mask_ratio=0.1",
            "finetune.mask_ratio 0.1 is not possible with objective autoregressive, which masks",
        ),
        ("finetune", "layer=9", "finetune.layer 9 does not exist; allowed: 0 to 4"),
    ],
)
def test_incompatible_settings_are_rejected_before_any_output(
    isopix: Run, verb: str, setting: str, message: str
) -> None:
    code, out, err = isopix(verb, "igpt.digits", "--out", "r", setting)
    assert (code, out) == (2, "")
    assert err.startswith(f"isopix: {message}")
    assert err.count("\n") == 1


def test_missing_data_is_neither_a_path_nor_a_dataset(isopix: Run) -> None:
    for verb, name in (("pretrain", "cifar11"), ("pretrain", "no/where"), ("finetune", "cifar11")):
        answer = isopix(verb, "igpt.digits", "--data", name, "--out", "r")
        problem = f"no file or folder '{name}' exists, and no dataset has that name"
        hint = "did you mean 'cifar10'? " * (name == "cifar11")
        refused(answer, f"{problem}; {hint}give {SOURCES}, or one of: {NAMES}")
        assert answer[1] == ""  # refused before the line that a training starts with
    assert not Path("r").exists()


def test_empty_folder(isopix: Run) -> None:
    Path("nothing").mkdir()
    answer = isopix("pretrain", "igpt.digits", "--data", "nothing", "--out", "r")
    endings = ".jpg .jpeg .png .webp .bmp .gif .tif .tiff"
    refused(answer, f"folder nothing has no images; allowed suffixes: {endings}")


def test_an_unreadable_file_is_skipped_printed_and_listed_in_the_run(isopix: Run, workplace: Path) -> None:
    for i in range(60):
        (workplace / "photos" / "cats" / f"copy{i}.png").write_bytes(
            (workplace / "photos/cats/0.png").read_bytes()
        )
    (workplace / "photos" / "dogs" / "broken.png").write_bytes(b"no picture")
    code, out, _ = isopix("pretrain", "igpt.digits", "--data", "photos", "--out", "r", *QUICK)
    assert code == 0
    reason = "not a JPEG, PNG, WEBP, BMP, GIF or TIFF image"
    assert f"skipped photos/dogs/broken.png: {reason}" in " ".join(out.split())
    listed = Path("r/bad-files.csv").read_text().splitlines()
    assert listed == ["path,reason", f'photos/dogs/broken.png,"{reason}"']


def test_more_than_one_percent_unreadable_files_stops_before_training(isopix: Run, workplace: Path) -> None:
    (workplace / "photos" / "dogs" / "broken.png").write_bytes(b"no picture")
    code, _, err = isopix("pretrain", "igpt.digits", "--data", "photos", "--out", "r", *QUICK)
    assert code == 2
    assert err.startswith(
        "isopix: 1 of 61 images cannot be read, above the limit of 1%; first: photos/dogs/broken.png"
    )
    assert err.count("\n") == 1
    assert not Path("r").exists()


def test_a_probe_needs_two_classes(isopix: Run, workplace: Path) -> None:
    (workplace / "photos" / "cats").rename(workplace / "only")
    (workplace / "photos").rename(workplace / "gone")
    (workplace / "photos").mkdir()
    (workplace / "only").rename(workplace / "photos" / "cats")
    assert isopix("pretrain", "igpt.digits", "--data", "photos", "--out", "r", *QUICK)[0] == 0
    assert (
        "of two classes or more; those of dataset 'photos' are all of class cats" in isopix("probe", "r")[2]
    )


def test_an_invalid_image_size(isopix: Run) -> None:
    answer = isopix("pretrain", "igpt.digits", "--out", "r", "data.rows=0")
    refused(answer, "data: rows is 0; allowed: 1 to 1024")


def test_a_palette_of_another_size(isopix: Run) -> None:
    colors = np.arange(16)[:, None].repeat(3, 1) / 16
    np.save("gray.npy", colors)
    assert isopix("palette", "import", "gray.npy", "--range", "0", "1", "--out", "gray.npz")[0] == 0
    answer = isopix("pretrain", "igpt.digits", "--palette", "gray.npz", "--out", "r", "num_colors=17")
    refused(answer, "the palette has 16 colors; codec.num_colors is 17")


def test_a_truncated_checkpoint(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits", "--out", "r", *QUICK)[0] == 0
    for file in Path("r/checkpoints").glob("*/model.safetensors"):
        size = file.stat().st_size
        with file.open("r+b") as opened:
            opened.truncate(100)
    message = (
        f"checkpoint r/checkpoints/step-00000002: model.safetensors has 100 bytes, "
        f"manifest.json has {size}; no checkpoint in r/checkpoints is intact"
    )
    refused(isopix("sample", "r"), message)


def test_a_truncated_newest_checkpoint_is_reported_and_skipped(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits", "--out", "r", *QUICK)[0] == 0
    with Path("r/checkpoints/step-00000002/model.safetensors").open("r+b") as opened:
        opened.truncate(100)
    code, _, err = isopix("sample", "r", "-n", "2")
    assert code == 0
    assert err.startswith("skipped: checkpoint r/checkpoints/step-00000002: model.safetensors has 100 bytes")


def test_a_checkpoint_with_another_palette(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits", "--out", "r", *QUICK)[0] == 0
    for folder in Path("r/checkpoints").iterdir():
        found = checkpoint.load_checkpoint(folder)
        found.tensors["model"]["codec.color_bits"][0] = found.tensors["model"]["codec.color_bits"][1]
        checkpoint.save_checkpoint(folder, found.tensors, found.records)
    code, _, err = isopix("sample", "r")
    assert code == 2
    stated = found.records["state"]["codec"][:12]
    assert err.startswith("isopix: checkpoint r/checkpoints/step-00000002: model.safetensors: palette ")
    assert f"is not palette {stated}, which it was trained with; no checkpoint in" in err


def test_a_run_folder_in_use(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits", "--out", "r", *QUICK)[0] == 0
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


def test_a_run_folder_that_is_not_empty(isopix: Run) -> None:
    Path("r").mkdir()
    Path("r/mine.txt").touch()
    for verb in ("pretrain", "finetune"):
        answer = isopix(verb, "igpt.digits", "--out", "r")
        refused(answer, "folder r is not empty; choose another --out")
        assert answer[1] == ""  # refused before the line that a training starts with
    assert Path("r/mine.txt").exists()


def test_a_missing_run_folder(isopix: Run) -> None:
    refused(isopix("sample", "nowhere"), "run folder nowhere does not exist")
    refused(isopix("sample", "photos"), "photos has no recipe.json; it is not a run folder")


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
    assert code == 1
    assert err.startswith("isopix: ")
    assert "checkpoint r/checkpoints/step-00000000" in err
    assert err.count("\n") == 1
    assert not list(Path("r/checkpoints").glob(".tmp*"))


def test_a_non_finite_loss(isopix: Run) -> None:
    words = ["lr=1e30", "steps=9", "batch_size=4", "depth=1", "width=16"]
    code, _, err = isopix("pretrain", "igpt.digits", "--out", "r", *words)
    assert code == 1
    assert err == (
        "isopix: the loss or its gradient is not finite at step 2; the last checkpoint is "
        "r/checkpoints/step-00000000; try a lower optimizer.lr, or train.on_nonfinite=rollback\n"
    )
    assert [path.name for path in Path("r/checkpoints").iterdir()] == ["step-00000000"]


def test_a_rollback_that_does_not_help_is_not_recommended(isopix: Run) -> None:
    words = ["lr=1e30", "steps=9", "batch_size=4", "depth=1", "width=16", "on_nonfinite=rollback"]
    code, _, err = isopix("pretrain", "igpt.digits", "--out", "r", *words)
    assert code == 1
    assert "after 10 rollbacks to step 0" in err
    assert err.endswith("; try a lower optimizer.lr\n")


def test_a_masked_model_cannot_sample_and_names_what_applies(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits_bert", "--out", "r", *QUICK)[0] == 0
    message = (
        "this model (objective: masked) cannot sample images; "
        "try isopix complete, isopix reconstruct, isopix probe"
    )
    refused(isopix("sample", "r"), message)


@pytest.mark.parametrize("rows", ["0", "8"])
def test_rows_must_leave_something_to_complete(isopix: Run, rows: str) -> None:
    assert isopix("pretrain", "igpt.digits", "--out", "r", *QUICK)[0] == 0
    message = f"--rows must be between 1 and 7 for this model; got {rows}"
    refused(isopix("complete", "r", "--rows", rows), message)


def test_an_unavailable_device(isopix: Run) -> None:
    code, _, err = isopix("plan", "igpt.s", "--device", "cuda:9")
    assert code == 2
    assert err.startswith("isopix: --device 'cuda:9' is not available; available: auto, cpu")


def test_a_negative_number_of_finetuning_steps(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits", "--out", "r", *QUICK, "data.limit=20")[0] == 0
    message = "--finetune-steps is -3; allowed: 0 or more"
    refused(isopix("low-data", "r", "--finetune-steps", "-3"), message)
