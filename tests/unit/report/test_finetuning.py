"""Fine-tuning in words says what is trained, and nothing of a decoder that is left behind."""

import pytest

from isopix.core.config import to_dict
from isopix.core.overrides import override
from isopix.report import finetuning, words
from isopix.runs.finetune import prepare_finetune


def told(recipe: str, *settings: str) -> str:
    """The sentences of a fine-tuning run, with plain spaces."""
    sentences = words.sentences(to_dict(prepare_finetune(recipe, assignments=settings).recipe))
    return " ".join(sentences).replace("\u00a0", " ")


def test_a_patchformer_is_told_as_it_is_fine_tuned() -> None:
    text = told("patchformer.tiny", "data.labels=10%", "data.subset=2")
    for said in (
        "The network learns the classes of images alone (L_CLF); what names grey pixels is left behind.",
        "In training 6 of 64 positions (9.4 %) are hidden, single ones, anywhere. What is hidden is left",
        "Of the training images of each class it learns from 10 %, draw 2.",
        "Classes are told from the class token of the last layer, through one more residual block, by one",
        "In training 10 % of what the matrix reads is left out, and 1 % of each label is shared among all",
        "Judging hides nothing.",
        "The weights of the best validation accuracy are judged, and 10 evaluations without a better one end",
    ):
        assert said in text
    for other in ("learns to name", "is named by", "2 × 2", "62.5", "among all levels"):
        assert other not in text


def test_a_joint_run_is_told_with_both_losses() -> None:
    both = ("generative_weight=0.5", "hide=null", "masked=true")
    text = told("vit.tiny", *both, "layer=2", "pool=mean", "patience=1", "data.labels=1")
    for said in (
        "learns to name hidden mean colours from all that is left",
        "At the same time it learns their classes: the loss is 0.5 · L_GEN + L_CLF.",
        "50 % of all positions are hidden, each by its own chance.",
        "Of each class it learns from 1 training image, draw 0.",
        "Classes are told from the mean over positions of layer 2, by one matrix.",
        "Judging hides as much.",
        "1 evaluation without a better one",
    ):
        assert said in text
    assert "is left out" not in text


def test_where_nothing_is_hidden_nothing_else_is_said_of_hiding() -> None:
    text = told("vit.tiny")
    assert "what names mean colours is left behind. Nothing is hidden. All labels" in text
    for other in ("Judging", "In the place of", "all positions"):
        assert other not in text


def test_codes_alone_are_told_without_classes() -> None:
    text = told("igpt.digits", "generative_weight=inf")
    assert "it learns that of codes alone (L_GEN), and no classes." in text
    for other in ("Classes are told", "judged", "labels"):
        assert other not in text


def test_a_network_that_reads_codes_is_told_them_and_which_way_it_looks() -> None:
    text = told("igpt.digits", "generative_weight=0", "patience=null")
    for said in (
        "nearest of 17 colours",
        "No position looks at a later one.",
        "All labels of the training images are used.",
        "No step is chosen: the weights of the last one are judged.",
    ):
        assert said in text
    assert "hide" not in text


def test_weights_of_another_run_are_not_said_to_be_drawn() -> None:
    recipe = to_dict(prepare_finetune("vit.tiny").recipe)
    text = " ".join(words.sentences(recipe, None, {"run": "/some/where/vit", "step": 1200}))
    assert "The weights start as those of “vit” after its step 1,200." in text
    assert "some" not in text.partition("The weights start")[2]
    assert "as in the Vision Transformer's code" not in text
    assert "as in the Vision Transformer's code" in " ".join(words.sentences(recipe))


@pytest.mark.parametrize(
    ("weight", "learnt", "alone"),
    [(0.0, "classes", True), (1.0, "masked, classes", False), ("inf", "masked", False)],
)
def test_what_is_learnt_in_a_word(weight: float | str, learnt: str, alone: bool) -> None:
    recipe = prepare_finetune("vit.tiny").recipe
    values = to_dict(override(recipe, {"classify.generative_weight": weight, "classify.hide": None}))
    assert words.learns(values) == learnt
    assert finetuning.classes_alone(values) == alone
    assert words.learns(values | {"classify": None}) == "masked"
    assert not finetuning.classes_alone(values | {"classify": {"of": "a later version"}})
