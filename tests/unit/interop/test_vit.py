"""Vision Transformers of Hugging Face and timm: what is imported, exported, and refused by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from isopix.finetuning.classifier import FineTuneConfig
from isopix.interop.config import ImportConfig
from isopix.interop.export import export_vit
from isopix.interop.imported_model import ImportedModel
from isopix.interop.read import read_model
from isopix.interop.vit_read import read_huggingface_vit, read_timm
from isopix.interop.weights import ExportedModel
from isopix.model.blocks.transformer import TransformerSpec
from isopix.recipes import registry
from isopix.recipes.vit import PAPER_FINETUNE
from isopix.runs.start import finetune_recipe
from isopix.train.config import SGD, WarmupCosineSchedule
from tests.unit.data.refusal import refusal
from tests.unit.interop.models import change_json
from tests.unit.interop.vits import change, huggingface_folder, timm_folder

Words = dict[str, Any]
KINDS: dict[str, tuple[Callable[..., Path], Callable[[Path], ImportedModel]]] = {
    "hugging face": (huggingface_folder, read_huggingface_vit),
    "timm": (timm_folder, read_timm),
}
# Each would compute something else here: changes of the config, of the preprocessing, and of the tensors.
REFUSED: list[tuple[str, Words, Words, Words, str]] = [
    ("hugging face", {"model_type": "deit"}, {}, {}, "model_type is 'deit'"),
    ("hugging face", {"intermediate_size": 17}, {}, {}, "width 17, which is not a multiple of 8"),
    ("hugging face", {"num_hidden_layers": 1}, {}, {}, "vit.encoder.layer.1"),
    ("hugging face", {"id2label": {"0": "a"}}, {}, {}, "names 1 classes; the class head has 3 outputs"),
    ("hugging face", {}, {"size": {"height": 8, "width": 9}}, {}, "it must be height 8 and width 8"),
    ("hugging face", {}, {}, {"vit.scale": torch.ones(8)}, "tensor 'vit.scale' is not part of"),
    ("hugging face", {}, {}, {"classifier.bias": torch.full((3,), torch.inf)}, "not finite"),
    ("hugging face", {}, {}, {"layernorm.weight": torch.ones(8)}, "is there with and without 'vit.'"),
    ("timm", {"architecture": "vit_base_patch16_rope_224"}, {}, {}, "architecture is 'vit_base"),
    ("timm", {"model_args": {"pre_norm": True}}, {}, {}, "model_args.pre_norm is True"),
    ("timm", {}, {"input_size": [3, 12, 12]}, {}, "pos_embed"),
    ("timm", {}, {}, {"blocks.0.ls1.gamma": torch.ones(8)}, "is not part of a supported model of timm"),
]


@pytest.mark.parametrize(("kind", "config", "images", "tensors", "message"), REFUSED)
def test_other_models_are_refused(
    tmp_path: Path, kind: str, config: Words, images: Words, tensors: Words, message: str
) -> None:
    make, read = KINDS[kind]
    source = make(tmp_path / "a", config=config, **images)
    change(source, tensors)
    assert message in refusal(read, source)


def test_the_files_say_which_model_it_is_and_its_kind_which_settings_it_has(tmp_path: Path) -> None:
    (names := tmp_path / "names").write_text("x\ny\n\nz\n")
    given = ImportConfig(classes=names)
    vit, timm = huggingface_folder(tmp_path / "vit"), timm_folder(tmp_path / "timm")
    assert [read_model(each, given).classes for each in (vit, timm)] == [("x", "y", "z")] * 2
    line = refusal(read_model, timm, ImportConfig(squash=True))
    assert line == "squash is not for a model of kind timm; allowed: classes"
    names.write_text("x\nx\nz\n")
    assert "must name two or more different classes" in refusal(read_model, vit, given)
    change_json(vit / "config.json", model_type="deit")
    line = refusal(read_model, vit, ImportConfig())
    assert line == "kind of model is 'deit'; allowed: openai, imagegpt, vit, vit_mae, timm"


def test_dropout_is_imported(tmp_path: Path) -> None:
    """ViT drops embeddings, attention weights and both branches; the encoder of ViTMAE no embeddings."""
    config = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3}
    vit = huggingface_folder(tmp_path / "vit", config=config)
    mae = huggingface_folder(tmp_path / "mae", config={**config, "model_type": "vit_mae"})
    change(mae, {"classifier.weight": None, "classifier.bias": None})
    encoder = read_huggingface_vit(mae)
    for found, embedding in ((read_huggingface_vit(vit), 0.2), (encoder, 0.0)):
        model = found.recipe.model
        assert isinstance(model.block, TransformerSpec)
        dropouts = (model.embedding_dropout, model.block.dropout, model.block.attention_dropout)
        assert dropouts == (embedding, 0.2, 0.3)


def test_classes_and_preprocessing(tmp_path: Path) -> None:
    crop = {"do_center_crop": True, "crop_size": {"height": 8, "width": 8}, "size": {"shortest_edge": 10}}
    found = read_huggingface_vit(huggingface_folder(tmp_path / "a", **crop, do_normalize=False, resample=3))
    data, stem = found.recipe.data, found.recipe.model.stem
    assert (data.crop, data.crop_fraction, data.resample) == ("resized_center", 0.8, "bicubic")
    assert (stem.mean, stem.std) == ((0, 0, 0), (1, 1, 1))
    assert found.classes == ("a", "b", "c")
    given = ("x", "y", "z")
    assert read_huggingface_vit(huggingface_folder(tmp_path / "b"), given).classes == given
    assert read_timm(timm_folder(tmp_path / "c")).classes == ("0", "1", "2")
    named = timm_folder(tmp_path / "d", config={"label_names": list(given)}, crop_mode="squash")
    assert (read_timm(named).classes, read_timm(named).recipe.data.crop) == (given, "squash")
    change(named, {"head.weight": None, "head.bias": None})
    assert read_timm(named).classes == ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [True, False])
def test_fine_tuning_is_that_of_the_paper(tmp_path: Path, kind: str, classes: bool) -> None:
    """Appendix B.1.1, on the classes alone, and a new class head with bias, zero at first."""
    make, read = KINDS[kind]
    source = make(tmp_path / "a")
    if not classes:
        change(source, dict.fromkeys(("classifier.weight", "classifier.bias", "head.weight", "head.bias")))
    tuned = finetune_recipe(read(source).recipe, "cifar10", from_scratch=False)
    train, head, cosine = tuned.train, tuned.finetune, WarmupCosineSchedule(warmup_epochs=0.0)
    assert (train.optimizer, train.schedule, train.max_grad_norm) == (SGD(lr=0.01, momentum=0.9), cosine, 1.0)
    assert (head.head_bias, head.patience, head.pool, head.label()) == (True, None, "first", "L_CLF")
    assert not any(each.any() for each in head.class_head(tuned.grid, 8, 3).parameters())
    assert {*PAPER_FINETUNE} <= {*registry.find("vit.b16").finetune_overrides}


SMALL = ["depth=2", "width=16", "rows=16", "cols=16", "patch_size=8"]
NOT_EXPORTED = {
    "class_token=false": "'backbone.cls_token' is missing, but required by ViTModel",
    "tie_blocks=true": "'backbone.blocks.1.attention.out.bias' is missing",
    "positions=factorized": "model.positions=learned or sincos",
    "stem=conv_patch_embed": "model.stem=patch_embed",
    "block.norm=rms_norm": "model.block=transformer with layer_norm",
    "block.qk_norm_scale=0.1": "model.block=transformer with layer_norm",
    "block.mlp.activation=relu_squared": "model.block=transformer with layer_norm",
    "cols=24": "only squares, or data.crop=squash",
}


def exported(*words: str, head: dict[str, torch.Tensor] | None = None, **finetune: object) -> ExportedModel:
    recipe = registry.resolve("vit.tiny", settings=[*SMALL, *words]).recipe
    recipe = recipe.updated(finetune=FineTuneConfig(**finetune) if finetune else None)
    network = recipe.build(recipe.model.codec.placeholder(recipe.grid))
    return export_vit(network, recipe, head or {}, ("a", "b"))


@pytest.mark.parametrize(("word", "message"), NOT_EXPORTED.items())
def test_another_network_is_not_exported_for_its_setting(word: str, message: str) -> None:
    assert message in refusal(lambda: exported(word))


def test_what_has_no_place_in_vitmodel_is_listed_and_another_class_head_refused() -> None:
    found = exported()
    assert found.skipped == {"backbone.masking.token": "mask token", "head.project.weight": "head of codes"}
    assert found.model_class == "ViTModel"
    needed, head = "it needs finetune.pool=first, layer=2", {"weight": torch.ones(2, 16)}
    assert needed in refusal(lambda: exported(head=head, pool="mean"))
    assert needed in refusal(lambda: exported(head=head, pool="first", layer=1))
