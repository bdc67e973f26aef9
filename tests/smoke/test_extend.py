"""Each file of `examples/extend` runs through every command, and what comes out says what it is."""

import json
from pathlib import Path

import pytest

from tests.smoke.conftest import QUICK, Run, done

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples" / "extend"
DIGITS = ["--data", "digits", "data.rows=8", "data.cols=8"]
# file: (recipe, settings, what its label says, the command that makes pictures, or why there are none)
CASES: dict[str, tuple[str, list[str], str, str]] = {
    "decay_block.py": ("igpt.digits", ["block=decay"], "exponential decay", "sample"),
    "gated_mlp.py": ("igpt.digits", ["model.block.mlp.kind=gated"], "SwiGLU 4x", "sample"),
    "gray_codec.py": ("igpt.digits", ["codec=gray4"], "4-bit grayscale", "sample"),
    "colorization.py": ("igpt.digits", ["objective=colorization"], "colorization", ""),
    "conv_stem.py": ("igpt.digits_bert", ["stem=two_convs"], "two convolutions per patch", "reconstruct"),
    "center_mask.py": ("igpt.digits_bert", ["objective.mask=center"], "the central 50", "reconstruct"),
    "accuracy_evaluator.py": (
        "igpt.digits",
        ["train.evaluators=[{kind: code_accuracy, num_images: 16}]", "evaluate_every=1"],
        "autoregressive",
        "sample",
    ),
    "nesterov_optimizer.py": ("igpt.digits", ["optimizer=nesterov"], "Nesterov, lr 0.1, momentum", "sample"),
    "lda_probe.py": ("igpt.digits", [], "autoregressive", "sample"),
    "participation_ratio.py": ("igpt.digits", [], "Participation ratio of the hidden states, of ", "sample"),
}
# Examples that leave the network as it is, for which one analysis is enough.
SAME_NETWORK = ("accuracy_evaluator.py", "nesterov_optimizer.py", "lda_probe.py")


@pytest.mark.parametrize("file", CASES)
@pytest.mark.usefixtures("quick_probes", "quick_figures")
def test_an_example_runs_through_every_command(isopix: Run, file: str) -> None:
    recipe, settings, label, picture = CASES[file]
    plugin = ["--plugin", str(EXAMPLES / file)]
    trained = done(isopix("pretrain", recipe, "--out", "run", *DIGITS, *QUICK, *settings, *plugin))
    assert "--plugin" not in trained
    recorded = json.loads(Path("run/environment.json").read_text())["plugins"]
    assert [Path(each["path"]).name for each in recorded] == [file]
    method = ["--method", "lda"] if file == "lda_probe.py" else []
    code, out, err = isopix("probe", "run", "--limit", "200", *method, *plugin)
    assert code == 0, err
    assert ("Linear discriminant" in out) == bool(method)
    for command in ("sample", "reconstruct"):
        code, _, err = isopix(command, "run", "-n", "2", *plugin)
        assert (code == 0) == (command == picture) == (f"isopix {command} run" in trained), err
        assert code == 0 or "cannot" in err or "masks no" in err
    only = ["--only", "attention_distance"] if file in SAME_NETWORK else []
    assert isopix("analyze", "run", "--limit", "4", *only, *plugin)[0] == 0
    words = ["steps=2", "batch_size=4", "evaluate_images=8", "num_test_images=8", "data.augment=none"]
    done(isopix("finetune", "run", "--out", "classes", *words, *plugin))
    assert isopix("evaluate", "classes", "--limit", "50", *plugin)[0] == 0
    done(isopix("report", "run", "classes", "--out", "page.html", *plugin))
    page = " ".join(Path("page.html").read_text().split())
    assert label in page
    if file == "accuracy_evaluator.py":
        log = [json.loads(line) for line in Path("run/log.jsonl").read_text().splitlines()]
        found = [record["code_accuracy"] for record in log if "code_accuracy" in record]
        assert len(found) == 3
        assert all(0 <= value <= 1 for value in found)
