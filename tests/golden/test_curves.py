"""The first losses of each family of recipes, step by step: a change of any number in training shows here."""

from pathlib import Path

import pytest

import isopix
from tests.golden.values import check_golden
from tests.trained import logged, train

CURVES = {
    "igpt.digits": """
        2.833214 2.767808 2.649354 2.478172 2.374026 2.283446 2.177729 2.122104 2.066409 2.066018
        2.099552 2.063251 2.079299 2.09893 2.088405 2.076608 2.059811 2.083225 2.053183 2.088982
    """,
    "igpt.digits_bert": """
        2.833214 2.767213 2.660859 2.467627 2.344668 2.310518 2.16886 2.096553 2.084106 2.019654
        1.905478 2.084936 2.010075 2.113966 2.106035 2.059498 2.079002 2.294271 1.9285 2.383659
    """,
    "isotropic.tiny-conv-fourier-1": """
        5.545177 5.442852 4.951416 4.455156 3.998921 3.590204 3.255869 3.000482 2.793999 2.613422
        2.445011 2.409248 2.265433 2.267142 2.210794 2.178671 2.155862 2.286537 2.013515 2.357168
    """,
    "isotropic.tiny-mixer-pix2vec-1": """
        5.545177 5.459927 5.146188 4.717394 4.22057 3.752661 3.298385 2.980656 2.733724 2.532818
        2.346221 2.319044 2.185189 2.204638 2.142484 2.110247 2.10382 2.260322 1.965244 2.337029
    """,
    "patchformer.tiny": """
        1.386295 1.385189 1.383999 1.382953 1.381582 1.380626 1.37887 1.377792 1.375808 1.373895
        1.374307 1.372513 1.372097 1.368034 1.366837 1.367153 1.363218 1.363669 1.359792 1.358781
    """,
    "vit.tiny": """
        6.238325 6.219675 6.169024 6.110445 6.050683 5.987971 5.929011 5.873261 5.820523 5.77159
        5.725612 5.68527 5.654219 5.62483 5.60498 5.587494 5.576104 5.566856 5.562918 5.560313
    """,
}
DIGITS = ["data.source=digits", "data.rows=8", "data.cols=8"]
ENLARGED = ["data.source=digits", "data.rows=32", "data.cols=32", "width=32"]
RESNET = ["codec.patch_size=8", "stem=resnet", "stem.stages=[1,1]", "stem.channels=8"]
RESNET += ["data.patch_augment=random", "head.channels=16", "head.norm=true"]
ADAM = ["lr=1e-3", "beta2=0.999", "schedule=constant"]
SMALLER = {"patchformer.tiny": [*ENLARGED, *RESNET, *ADAM], "vit.tiny": ENLARGED}


@pytest.mark.parametrize("name", CURVES)
def test_twenty_steps_give_the_same_losses_as_ever(name: str, tmp_path: Path) -> None:
    words = ["steps=20", "batch_size=32", "log_every=1", "evaluate_images=0", "num_test_images=0"]
    words.append("holdout=0")  # which images are held out has its own tests
    train(name, tmp_path / "run", *words, *SMALLER.get(name, DIGITS))
    losses = [each["loss_nats"] for each in logged(tmp_path / "run", kind="train")]
    expected = [float(each) for each in CURVES[name].split()]
    assert losses == pytest.approx(expected, rel=5e-5)  # processors without AVX-512 differ by 2e-5


@pytest.mark.parametrize("name", CURVES)
def test_each_family_is_measured_as_ever(name: str, tmp_path: Path) -> None:
    words = ["steps=2", "batch_size=8", "data.limit=60", "evaluate_images=8", "num_test_images=8"]
    run = tmp_path / "run"
    train(name, run, *words, *SMALLER.get(name, DIGITS))
    measured = [isopix.analyze(run, limit=4), isopix.probe(run, method="ridge"), isopix.verify(run)]
    check_golden("families", name, [[each.record(), str(each).splitlines()] for each in measured])
