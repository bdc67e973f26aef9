"""A wrong call is one line, what was given and what is allowed, and exit code 2; nothing is written."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import isopix as package
from isopix.cli.main import ORDER
from isopix.recipes.registry import listing
from tests.smoke.conftest import QUICK, Run, add_photos

COMMANDS = ", ".join(ORDER.split())
SOURCES = (
    "a folder of images, tar files, Arrow files, Parquet files, an image, OpenAI's .npy files or an .npz file"
)
NAMES = "digits, translated-digits, cifar10, cifar100, stl10, imagenet-1k, tiny-imagenet"
NO_DATA = "exists, and no dataset has that name; {}give " + f"{SOURCES}, or one of: {NAMES}"
OPTIONS = (
    "options of isopix sample: --count, -n, --temperature, --top-k, --top-p, --precision, --compile, "
    "--no-compile, --seed, --nearest, --device, --plugin, --json"
)
BLOCK = "kind, norm, heads, attention_bias, qkv_bias, dropout, attention_dropout, mlp"
NO_CLASSES = "dataset 'flat' has none in train, validation, test: in a folder, put each class in a"
NEW = "pretrain igpt.digits --out r"
STUDY = "study inductive-bias --out r"
CHECKPOINT = "ar/checkpoints/step-00000002"
READERS = (
    *("resume", "probe", "analyze", "evaluate", "low-data", "sample", "complete", "reconstruct"),
    *("verify", "report", "compare"),
)

REFUSED = {
    # Commands, arguments and options.
    "smaple r": f"unknown command 'smaple'; did you mean 'sample'? commands: {COMMANDS}",
    "palette zzz": "unknown command 'zzz'; commands: fit, import, show",
    "sample r --cuont=3": f"unknown option '--cuont'; did you mean '--count'? {OPTIONS}",
    "sample r --num-samples 4": "did you mean '--count'?",
    "sample": "missing RUN; see: isopix sample --help",
    "sample r x": "unexpected argument 'x'; see: isopix sample --help",
    "pretrain igpt.digits": "missing --out; see: isopix pretrain --help",
    "sample r -n": "-n needs a value",
    "sample r -n abc": 'Invalid value for -n: unable to convert "abc" into int',
    "sample r --count 0": "--count is 0; allowed: 1 or more",
    "sample r --seed 1 --seed 2": "--seed specified multiple times",
    "sample ar --temperature inf": "--temperature is inf; it must be a finite number",
    "palette fit --data d --out p --size 3": "--size needs 2 values",
    "complete r --split foo": '"foo" for --split. Choose from: "train", "validation", "test"',
    "doctor --device cuda:7": "--device 'cuda:7' is not available; available: auto, cpu",
    f"{NEW} --logger nothing": "unknown logger 'nothing'",
    # Settings.
    f"{NEW} --steps 4": "unknown option '--steps'; it is a setting: write steps=4;",
    f"{NEW} --lr --json": "it is a setting: write lr=VALUE;",
    f"{NEW} --epochs 3": "did you mean the setting 'steps'? write steps=VALUE; ",
    f"{NEW} --dpeth 2": "if it is a setting, write dpeth=2; options of",
    f"{NEW} model.block.kind=transfomer": "did you mean 'transformer'?",
    f"{NEW} block.hedas=2": (
        "unknown setting 'model.block.hedas'; did you mean 'model.block.heads'? "
        f"settings of model.block: {BLOCK}"
    ),
    f"{NEW} --file wrong.yaml": "did you mean 'train.batch_size'?",
    f"{NEW} data.rows=0": "data.rows is 0; allowed: 1 to 1024",
    f"{NEW} --palette gray.npz num_colors=17": ("the palette has 16 colors; codec.num_colors is 17"),
    "finetune igpt.digits --out r class_token=true": "class_token needs a network that is not causal",
    "finetune igpt.digits --out r mask_ratio=0.1": (
        "finetune.mask_ratio 0.1 is not possible with objective autoregressive, which masks"
    ),
    "finetune igpt.digits --out r layer=9": "finetune.layer 9 does not exist; allowed: 0 to 4",
    # Recipes, runs and models.
    "plan igpt.tinny": (
        f"unknown recipe 'igpt.tinny'; did you mean 'igpt.tiny'? recipes: {', '.join(listing())}"
    ),
    "finetune igpt.digitz --out r": "no run folder or recipe 'igpt.digitz'; did you mean 'igpt.digits'?",
    "sample photos": "photos has no recipe.json; it is not a run folder",
    "pretrain igpt.digits --out mine": "folder mine is not empty; choose another --out",
    **{f"{verb} nowhere": "nowhere" for verb in READERS},
    **{
        f"{verb} {CHECKPOINT}": f"{CHECKPOINT} is a checkpoint, not a run folder; give ar"
        for verb in ("sample", "complete", "reconstruct", "probe", "report", "resume")
    },
    "studio": "one or two runs",
    "score ar --out mine/file.txt": "is a file; results are several files: give a folder",
    "compare tuned --baseline none": "no folder none",
    # Searches, studies and protocols.
    "reproduce igpt.figure2 --data digits --out mine": "mine is not empty",
    "search-lr igpt.digits --out r lr=0.1": "set --max-lr and --min-lr instead",
    "search-lr igpt.digits --out r data.holdout=0": "a learning rate is chosen by validation images",
    f"{STUDY} --trials axial-*": "no trial of scale 'tiny' matches 'axial-*'",
    f"{STUDY} --report-only": "r is not a study; isopix study makes one",
    f"{STUDY} --trials conv-pix2vec-1 --device tpu": "device 'tpu' is not available",
    "reproduce igpt.table9 --out r": "unknown protocol 'igpt.table9'; did you mean 'igpt.table",
    "reproduce igpt.table1 --out r --pretrained igpt-s=y": "protocol has: igpt-l",
    # Data.
    f"{NEW} --data cifar11": ("no file or folder 'cifar11' " + NO_DATA.format("did you mean 'cifar10'? ")),
    f"{NEW} --data=": "no file or folder '' " + NO_DATA.format(""),
    f"{NEW} --data nothing": "folder nothing has no images; allowed suffixes: .apng ",
    f"{NEW} --data ar": f"ar is a run folder; give {SOURCES}",
    "finetune ar --out r --data flat": NO_CLASSES,
    "evaluate tuned --data photos": "has the classes cats, dogs; those of the run are 0, 1, 2, 3, 4 ...",
    # What a model cannot do.
    "sample bert": (
        "this model (objective: masked) cannot sample images; "
        "try isopix complete, isopix reconstruct, isopix probe"
    ),
    "complete ar --rows 0": "--rows 0 is out of range; allowed: 1 to 7",
    "evaluate ar": "is not fine-tuned on classes and has no class head; to do so: isopix finetune ar --out",
    "probe ar --mask-ensemble 5": "mask-ensemble is 5, but an autoregressive model masks nothing; allowed: 0",
    "probe ar --concat 5 --layer 1": "--concat 5 needs all layers, and layer 1 is set",
    "probe ar --layer 7": "--layer 7 does not exist; layers are 0 to 1",
    "probe ar --method svm": "--method is 'svm'; allowed: adam, knn, lbfgs, ridge, sgd",
    "probe cats": "needs training images of two classes; those of dataset 'single' are all of cats",
    "probe ar data.rows=4": "images of 4 x 8 pixels; this model reads 8 x 8",
    "low-data ar batch_size=4 --labels 1": (
        "'batch_size=4' is a fine-tuning setting; it needs --finetune-steps above 0"
    ),
    "analyze ar --only atention_maps": "did you mean 'attention_maps'?",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs, and with what is refused."""
    folder = add_photos(tmp_path_factory.mktemp("refusals"))
    for name in ("nothing", "mine", "flat"):
        (folder / name).mkdir()
    (folder / "mine/file.txt").touch()
    for path in (folder / "photos").glob("*/*.png"):
        shutil.copy(path, folder / "flat" / f"{path.parent.name}-{path.name}")
    shutil.copytree(folder / "photos/cats", folder / "single/cats")
    (folder / "wrong.yaml").write_text("train:\n  batch_szie: 4\n")
    np.save(folder / "gray.npy", np.arange(16)[:, None].repeat(3, 1) / 16)
    small = [*QUICK, "data.limit=60"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        package.palette_import("gray.npy", value_range=(0, 1), out="gray.npz")
        package.pretrain("igpt.digits", *small, out="ar", device="cpu")
        package.pretrain("igpt.digits_bert", *small, out="bert", device="cpu")
        package.pretrain("igpt.digits", *small, out="cats", data="single", device="cpu")
        package.finetune("ar", "steps=1", "batch_size=8", "patience=null", out="tuned", device="cpu")
    return folder


@pytest.mark.parametrize("words", REFUSED)
@pytest.mark.usefixtures("folder")
def test_a_wrong_call_is_one_line_and_nothing_is_written(isopix: Run, words: str) -> None:
    before = sorted(Path().rglob("*"))
    code, out, err = isopix(*words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("isopix: ")
    assert REFUSED[words] in err.replace("?\n", "? ")
    assert sorted(Path().rglob("*")) == before
