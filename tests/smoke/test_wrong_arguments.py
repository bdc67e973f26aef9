"""Wrong command-line arguments and interruptions: one line, and the right exit code."""

from pathlib import Path

import pytest

from isopix.cli.errors import with_option_names
from isopix.cli.main import ORDER
from isopix.recipes import registry
from tests.smoke.conftest import QUICK, Run
from tests.smoke.test_bad_input import SOURCES, refused

OPTIONS = "options of isopix sample: --count, -n, --temperature, --top-k, --top-p, "
OPTIONS += "--precision, --compile, --no-compile, --seed, --nearest, --device, --plugin, --json"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "smaple r",
            f"unknown command 'smaple'; did you mean 'sample'? commands: {', '.join(ORDER.split())}",
        ),
        ("--nope", f"unknown command '--nope'; commands: {', '.join(ORDER.split())}"),
        ("palette zzz", "unknown command 'zzz'; commands: fit, import, show"),
        ("sample r --nope", f"unknown option '--nope'; {OPTIONS}"),
        ("sample r --cuont=3", f"unknown option '--cuont'; did you mean '--count'? {OPTIONS}"),
        ("sample", "missing RUN; see: isopix sample --help"),
        ("sample r x", "unexpected argument 'x'; see: isopix sample --help"),
        ("pretrain igpt.digits", "missing --out; see: isopix pretrain --help"),
        ("sample r -n", "-n needs a value"),
        ("palette fit --data d --out p --size 3", "--size needs 2 values"),
        ("sample r -n abc", "-n is 'abc'; it must be an integer"),
        ("sample r --temperature hot", "--temperature is 'hot'; it must be a number"),
        ("sample r --json=3", "--json is '3'; it takes no value"),
        ("sample r --count 0", "--count is 0; allowed: 1 or more"),
        ("sample r --seed 1 --seed 2", "--seed is given more than once"),
        ("complete r --split foo", "--split is 'foo'; it must be one of train, validation, test"),
    ],
)
def test_a_wrong_argument_is_reported_with_the_allowed_ones(isopix: Run, words: str, message: str) -> None:
    refused(isopix(*words.split()), message)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("palette fti", "fit"),
        ("export r", "convert"),
        ("linear-probe r", "probe"),
        ("sample r --num-samples 4", "--count"),
        ("pretrain igpt.digits --output r", "--out"),
        ("pretrain igpt.digits --out r image_size=8", "data.rows"),
        ("pretrain igpt.digits --out r batch-size=4", "train.batch_size"),
        ("pretrain --from igpt.tinny --out r", "igpt.tiny"),
        ("data shwo digits", "show"),
        ("recipe show igpt.tny", "igpt.tiny"),
        ("pretrain igpt.digits --out r dpeth=6", "model.depth"),
        ("pretrain igpt.digits --out r model.dpeth=6", "model.depth"),
        ("pretrain igpt.digits --out r model.block.kind=transfomer", "transformer"),
        ("pretrain igpt.digits --out r --file wrong.yaml", "train.batch_size"),
        ("pretrain igpt.digits --out r --data cfar10", "cifar10"),
        ("pretrain igpt.digits --out r --data phtos", "photos"),
        ("data show phtos", "photos"),
        ("sample phtos", "photos"),
        ("reproduce igpt.tabel4 --out o", "igpt.table4"),
        ("analyze r --only atention_maps", "attention_maps"),
    ],
)
def test_a_misspelled_name_is_answered_with_the_nearest(
    isopix: Run, workplace: Path, words: str, meant: str
) -> None:
    (workplace / "wrong.yaml").write_text("train:\n  batch_szie: 4\n")
    code, out, err = isopix(*words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"did you mean '{meant}'? " in err.replace("?\n", "? ")


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        ("--steps 4", "steps=4"),
        ("--depth 2", "depth=2"),
        ("--batch-size=4", "batch_size=4"),
        ("--batch_size 4", "batch_size=4"),
        ("--lr --json", "lr=VALUE"),
        ("--model.depth 2", "model.depth=2"),
        ("--train.batch-size 8", "train.batch_size=8"),
        ("--size 16", "size=16"),
    ],
)
def test_a_setting_typed_as_an_option_is_shown_as_a_setting(isopix: Run, words: str, setting: str) -> None:
    code, _, err = isopix("pretrain", "igpt.digits", *words.split(), "--out", "r")
    option = words.replace("=", " ").split()[0]
    start = f"isopix: unknown option '{option}'; it is a setting: write {setting}; options of isopix pretrain"
    assert (code, err.startswith(start)) == (2, True)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("--epochs 3", "did you mean the setting 'steps'? write steps=VALUE; "),
        ("--dpeth 2", "if it is a setting, write dpeth=2; "),
        ("--limti 2", "did you mean '--limit'? "),
    ],
)
def test_what_is_no_setting_is_answered_with_the_nearest_option(isopix: Run, words: str, hint: str) -> None:
    code, _, err = isopix("pretrain", "igpt.digits", *words.split(), "--out", "r")
    assert (code, f"'; {hint}options of" in err) == (2, True)


def test_messages_of_functions_name_options_as_they_are_typed() -> None:
    names = ["layer", "top_k", "mask_ensemble"]
    assert with_option_names("layer 7 does not exist", names) == "--layer 7 does not exist"
    assert with_option_names("the layer 7 with top_k=1", names) == "the layer 7 with --top-k=1"
    assert with_option_names("layer: none; train.top_k is 3", names) == "layer: none; train.top_k is 3"
    assert with_option_names("'mask_ensemble' is a folder", names) == "'mask_ensemble' is a folder"


def raising(error: BaseException):
    def stub(*_: object, **__: object) -> None:
        raise error

    return stub


def test_ctrl_c_is_reported_at_any_moment(isopix: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "resolve", raising(KeyboardInterrupt()))
    refused(isopix("recipe", "show", "igpt.tiny"), "interrupted", code=130)


def test_a_second_ctrl_c_prints_the_resume_command(isopix: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isopix.runs.processes.train_recipe", raising(KeyboardInterrupt()))
    refused(isopix("pretrain", "igpt.digits", "--out", "my run"), "interrupted", code=130)

    def interrupted(*_: object, **__: object) -> None:
        Path("my run/checkpoints/step-00000025").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr("isopix.runs.processes.train_recipe", interrupted)
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
    ("error", "message"),
    [
        (RuntimeError("the compiler failed\nand says why\nin a thousand lines"), "the compiler failed"),
        (RuntimeError(), "RuntimeError"),
        (NotADirectoryError(20, "Not a directory", "a.txt/x"), "a.txt/x: Not a directory"),
    ],
)
def test_errors_of_libraries_are_one_line(
    isopix: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    monkeypatch.setattr(registry, "resolve", raising(error))
    refused(isopix("recipe", "show", "igpt.tiny"), message, code=1)


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


def test_an_empty_data_path_is_not_the_current_folder(isopix: Run) -> None:
    answer = isopix("pretrain", "igpt.digits", "--data", "", "--out", "r")
    assert answer[2].startswith(f"isopix: data: source is empty; give {SOURCES}")
    assert answer[0] == 2


def test_too_many_palette_colors_name_the_setting(isopix: Run) -> None:
    message = "codec.num_colors: 99 colors requested, but the images have only 17 distinct colors"
    refused(isopix("pretrain", "igpt.digits", "--out", "r", "codec.num_colors=99"), message)


def test_no_command_writes_into_a_checkpoint(isopix: Run) -> None:
    assert isopix("pretrain", "igpt.digits", "--out", "r", *QUICK)[0] == 0
    folder = Path("r/checkpoints/step-00000002")
    before = sorted(folder.rglob("*"))
    for name in ("sample", "complete", "reconstruct", "probe", "report", "resume"):
        message = f"{folder} is a checkpoint, not a run folder; give r"
        refused(isopix(name, str(folder)), message)
    assert isopix("verify", str(folder), "--limit", "4")[0] == 0
    assert sorted(folder.rglob("*")) == before
    refused(isopix("sample", "r", "--temperature", "inf"), "--temperature is inf; it must be a finite number")
    assert not list(Path("r/samples").iterdir())
    answer = isopix("pretrain", "igpt.digits", "--data", "r", "--out", "other")
    refused(answer, f"folder r is a run folder; as a dataset give {SOURCES}")
