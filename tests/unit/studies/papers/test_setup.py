"""Which data and which networks a setup means."""

from pathlib import Path

import pytest

from isopix.core.overrides import parse
from isopix.recipes import igpt
from isopix.studies.papers.setup import Setup


def test_the_data_of_pre_training_and_of_labels() -> None:
    paper = Setup("paper")
    assert paper.datasets("cifar10", "stl10") == ("cifar10", "stl10")
    assert paper.network("l", igpt.l()).recipe == igpt.l()
    assert Setup("paper", data="cifar100").network("l", igpt.l()).recipe.data.source == "imagenet-1k"
    assert Setup("tiny").datasets("cifar10", "stl10") == ("translated-digits",)
    both = Setup("tiny", data="digits")
    assert (both.datasets("cifar10"), both.network("d", igpt.tiny()).recipe.data.source) == (
        ("digits",),
        "digits",
    )
    other = Setup("tiny", data="digits", pretrain_data="stl10").network("d", igpt.tiny())
    assert other.recipe.data.source == "stl10"


def test_the_data_of_pre_training_are_not_read_anew() -> None:
    setup = Setup("tiny")
    network = setup.network("d", igpt.digits())
    assert setup.probe_data(network, "translated-digits") is None
    assert setup.probe_data(network, "cifar10") == "cifar10"


def test_a_path_with_quotes_is_a_value() -> None:
    words = Setup().finetune_settings('my "photos": 1')
    assert parse(words)["data.source"] == 'my "photos": 1'


def test_a_missing_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        Setup(pretrained={"l": str(tmp_path / "none")}).network("l", igpt.l())
