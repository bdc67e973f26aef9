"""Export to ViTModel: what has no place there is refused by its setting, or listed."""

import pytest

from isopix.finetuning.config import FineTuneConfig
from isopix.interop.vit.export import ExportedHead, export_vit
from isopix.interop.vit.huggingface import read_huggingface_vit
from isopix.interop.weight_files import open_weights
from isopix.recipes import registry
from tests.unit.data.refusal import refusal
from tests.unit.interop.vit import models

SMALL = ["depth=2", "width=16", "rows=16", "cols=16", "patch_size=8"]
REFUSED = {
    "no class token": (["class_token=false"], "model.class_token=true"),
    "tied": (["tie_blocks=true"], "model.tie_blocks=false"),
    "other stem": (["stem=conv_patch_embed"], "model.stem=patch_embed"),
    "factorized positions": (["positions=factorized"], "model.positions=learned or sincos"),
    "other norm": (["block.norm=rms_norm"], "model.block.norm=layer_norm"),
    "no biases": (["attention_bias=false"], "model.block.attention_bias=true"),
    "oblong crops": (["cols=24"], "only squares, or data.crop=squash"),
}


def exported(*words: str, head: ExportedHead | None = None):
    recipe = registry.resolve("vit.tiny", assignments=[*SMALL, *words]).recipe
    return export_vit(recipe.build(recipe.model.codec.placeholder(recipe.grid)), recipe, head)


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=list(REFUSED))
def test_another_network_is_refused_by_its_setting(words: list[str], message: str) -> None:
    assert message in refusal(lambda: exported(*words))


def test_what_is_skipped_is_listed() -> None:
    found = exported()
    assert found.skipped == {"backbone.masking.token": "mask token", "head.project.weight": "head of codes"}
    assert found.model_class == "ViTModel"


@pytest.mark.parametrize("settings", [{"pool": "mean"}, {"pool": "first", "layer": 1}])
def test_another_class_head_is_refused(settings: dict[str, object]) -> None:
    head = ExportedHead({}, FineTuneConfig(**settings), ("a", "b"))
    assert "it needs finetune.pool=first, layer=2" in refusal(lambda: exported(head=head))


def test_an_import_exports_the_tensors_that_it_read(tmp_path) -> None:
    source = models.huggingface_folder(tmp_path / "a")
    imported = read_huggingface_vit(source)
    head = ExportedHead(imported.classifier, imported.recipe.finetune, imported.classes)
    found = export_vit(imported.network(), imported.recipe, head)
    stored = open_weights(source)
    assert found.tensors.keys() == stored.shapes.keys()
    folded = {f"vit.embeddings.{name}" for name in ("cls_token", "position_embeddings")}
    for name in stored.shapes.keys() - folded:
        assert found.tensors[name].equal(stored.read(name)), name
    token, positions = sorted(folded)
    sums = [each(token)[0, 0] + each(positions)[0, 0] for each in (stored.read, found.tensors.__getitem__)]
    assert sums[0].equal(sums[1])
