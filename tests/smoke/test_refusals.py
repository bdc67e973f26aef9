"""A wrong call is one line, what was given and what is allowed, and exit code 2; nothing is written."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import isopix as package
from tests.golden.values import check_golden
from tests.smoke.conftest import QUICK, Run, add_photos

NEW = "pretrain igpt.digits --out r"
STUDY = "reproduce isotropic.study --out r"
CHECKPOINT = "ar/checkpoints/step-00000002"
READERS = (
    *("resume", "probe", "analyze", "evaluate", "sample", "complete", "reconstruct"),
    *("report", "compare", "show"),
)

REFUSED = [
    # Commands, arguments and options.
    "smaple r",
    "palette zzz",
    "palette gray.npz --colors 4",
    "palette gray.npz --limit 4",
    f"{NEW} --palette gray.npy",
    "sample r --cuont=3",
    "sample r --num-samples 4",
    "sample",
    "sample r x",
    "pretrain igpt.digits",
    "sample r -n",
    "sample r -n abc",
    "sample r --count 0",
    "sample r -n 0",
    "list recipies",
    "list runs",
    "sample r --seed 1 --seed 2",
    "sample ar --temperature inf",
    "palette p.npz --data d --size 3",
    "complete r --split foo",
    "doctor --device cuda:7",
    f"{NEW} --logger nothing",
    # Settings.
    f"{NEW} --steps 4",
    f"{NEW} --lr --json",
    f"{NEW} --epochs 3",
    f"{NEW} --dpeth 2",
    f"{NEW} model.block.kind=transfomer",
    f"{NEW} block.hedas=2",
    f"{NEW} --file wrong.yaml",
    f"{NEW} --file broken.yaml",
    f"{NEW} size=0",
    f"{NEW} data.rows=0",
    f"{NEW} steps = 5",
    f"{NEW} --palette gray.npz num_colors=17",
    "finetune igpt.digits --from-scratch --out r class_token=true",
    "finetune igpt.digits --from-scratch --out r mask_ratio=0.1",
    "finetune igpt.digits --from-scratch --out r layer=9",
    # Recipes, runs and models.
    "plan igpt.tinny",
    "show igpt.tinny",
    "show ar depth=2",
    "finetune igpt.digitz --out r",
    "finetune igpt.tiny --out r",
    "finetune ar --out ar",
    "sample photos",
    "pretrain igpt.digits --out mine",
    "pretrain igpt.digits --out mine/file.txt/run",
    "palette wrong.yaml",
    *(f"{verb} nowhere" for verb in READERS),
    *(f"{verb} {CHECKPOINT}" for verb in ("sample", "complete", "reconstruct", "probe", "report", "resume")),
    "studio",
    "score ar --out mine/file.txt",
    "compare tuned --baseline none",
    "compare many ar",
    "resume halfway",
    # Searches, studies and protocols.
    "reproduce igpt.figure2 --data digits --out mine",
    "search-lr igpt.digits --out r",
    f"{NEW} lr=search:0.1",
    f"{NEW} lr=search data.holdout=0",
    "finetune ar lr=search --refit-on-validation --out r",
    f"{STUDY} --trials axial-*",
    f"{STUDY} --trials conv-pix2vec-1 --data digits data.holdout=0",
    f"{STUDY} --report-only",
    f"{STUDY} --report-only --seeds 2 steps=4",
    f"{STUDY} --pretrained igpt-l=ar",
    f"{STUDY} --trials conv-pix2vec-1 --device tpu",
    "reproduce igpt.table4 --data digits --limit 300 --out r",
    "reproduce igpt.table4 --data digits --limit 300 --plan",
    "reproduce igpt.table9 --out r",
    "reproduce igpt.table1",
    "reproduce igpt.table1 --plan --seeds 2",
    "reproduce igpt.table1 --out r --pretrained igpt-s=y",
    # Data.
    f"{NEW} --data cifar11",
    f"{NEW} --data=",
    f"{NEW} --data nothing",
    f"{NEW} --data ar",
    "finetune ar --out r --data flat",
    "evaluate tuned --data photos",
    "neighbors ar --query missing",
    "finetune ar --out r --labels 0",
    # What a model cannot do.
    "sample bert",
    "complete ar --rows 0",
    "evaluate ar --mask-ensemble 1",
    "sample ar --out picture.jpg",
    "export ar x.bin --format onnx",
    "probe ar --mask-ensemble 5",
    "probe ar --concat 5 --layer 1",
    "probe ar --layer 7",
    "probe ar --method svm",
    "probe cats",
    "probe ar data.rows=4",
    "probe ar batch_size=4 --labels 1",
    "analyze ar --only atention_maps",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs, and with what is refused."""
    folder = add_photos(tmp_path_factory.mktemp("refusals"))
    for name in ("nothing", "mine", "flat", "halfway/selection"):
        (folder / name).mkdir(parents=True)
    (folder / "mine/file.txt").touch()
    for path in (folder / "photos").glob("*/*.png"):
        shutil.copy(path, folder / "flat" / f"{path.parent.name}-{path.name}")
    shutil.copytree(folder / "photos/cats", folder / "single/cats")
    (folder / "wrong.yaml").write_text("train:\n  batch_szie: 4\n")
    (folder / "broken.yaml").write_text("train: {steps: 4\n")
    gray = np.arange(16)[:, None].repeat(3, 1)
    np.save(folder / "gray.npy", gray / 16)
    np.savez(folder / "gray.npz", (gray * 17).astype(np.uint8))
    small = [*QUICK, "data.limit=60"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        package.pretrain("igpt.digits", *small, out="ar", device="cpu")
        package.pretrain("igpt.digits_bert", *small, out="bert", device="cpu")
        package.pretrain("igpt.digits", *small, out="cats", data="single", device="cpu")
        shutil.copytree("ar", "many/ar")
        package.finetune("ar", "steps=1", "batch_size=8", "patience=null", out="tuned", device="cpu")
    return folder


@pytest.mark.parametrize("words", REFUSED)
@pytest.mark.usefixtures("folder")
def test_a_wrong_call_is_one_line_and_nothing_is_written(isopix: Run, words: str) -> None:
    before = sorted(Path().rglob("*"))
    code, out, err = isopix(*words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("isopix: ")
    check_golden("refusals", words, err)
    assert sorted(Path().rglob("*")) == before
