"""ViT of Hugging Face: what is imported, and what is refused by its name."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from isopix.interop.vit.huggingface import read_huggingface_vit, read_mae
from isopix.model.blocks.transformer import TransformerSpec
from isopix.model.mlp import TwoLayerMLPSpec
from tests.unit.data.refusal import refusal
from tests.unit.interop.vit.models import change, huggingface_folder

CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "another model": ({"model_type": "deit"}, "model_type is 'deit'; it must be vit"),
    "activation": ({"hidden_act": "relu"}, "hidden_act is 'relu'; allowed:"),
    "channels": ({"num_channels": 1}, "num_channels is 1"),
    "heads": ({"num_attention_heads": 3}, "width 8 is not a multiple of 3 heads"),
    "hidden layer": (
        {"intermediate_size": 17},
        "intermediate_size is 17; it must be a multiple of the width 8",
    ),
    "layers": ({"num_hidden_layers": 3}, "tensor 'encoder.layer.2.layernorm_before.weight' is missing"),
    "fewer layers": ({"num_hidden_layers": 1}, "vit.encoder.layer.1"),
    "no number": ({"hidden_size": "8"}, "hidden_size is '8'; it must be an integer"),
    "epsilon": ({"layer_norm_eps": 0}, "epsilon of the layer norm is 0"),
    "patches": ({"patch_size": 3}, "cannot be cut into patches of 3"),
    "oblong patches": ({"patch_size": [4, 2]}, "patches must be squares"),
    "image size": ({"image_size": 16}, "size is"),
    "classes": ({"id2label": {"0": "a"}}, "id2label has other classes than the 3 outputs"),
    "no bias of queries": ({"qkv_bias": False}, "is not part of a supported Vision Transformer"),
}
PROCESSORS: dict[str, tuple[dict[str, Any], str]] = {
    "size": ({"size": {"height": 8, "width": 9}}, "it must be height 8 and width 8"),
    "filter": ({"resample": 1}, "resample is 1; allowed: 2, 3, 4"),
    "mean": ({"image_mean": [0.5]}, "image_mean is [0.5]; it must be a list of 3 numbers"),
    "zero": ({"image_std": [0.5, 0.0, 0.5]}, "std"),
    "scale": ({"rescale_factor": 1.0}, "rescale_factor is 1.0"),
    "not scaled": ({"do_rescale": False}, "do_rescale is false"),
    "crop": ({"do_center_crop": True, "crop_size": 6, "size": {"shortest_edge": 9}}, "crop_size 6"),
}


@pytest.mark.parametrize(("config", "message"), CONFIGS.values(), ids=list(CONFIGS))
def test_unsupported_settings_are_refused(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    assert message in refusal(read_huggingface_vit, huggingface_folder(tmp_path / "a", config=config))


@pytest.mark.parametrize(("processor", "message"), PROCESSORS.values(), ids=list(PROCESSORS))
def test_unsupported_preprocessing_is_refused(
    tmp_path: Path, processor: dict[str, Any], message: str
) -> None:
    assert message in refusal(read_huggingface_vit, huggingface_folder(tmp_path / "a", **processor))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vit__layernorm__weight": None}, "tensor 'layernorm.weight' is missing"),
        ({"vit__layer_scale": torch.ones(8)}, "tensor 'vit.layer_scale' is not part of"),
        ({"vit__layernorm__weight": torch.ones(7)}, "has shape (7,); this model needs (8,)"),
        ({"vit__layernorm__weight": torch.full((8,), torch.nan)}, "not finite"),
        ({"classifier__bias": torch.full((3,), torch.inf)}, "not finite"),
        ({"vit__layernorm__weight": torch.ones(8, dtype=torch.int64)}, "must be floating point"),
        ({"layernorm__weight": torch.ones(8)}, "are the same"),
    ],
)
def test_wrong_tensors_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    source = huggingface_folder(tmp_path / "a")
    change(source, **changes)
    assert message in refusal(read_huggingface_vit, source)


def test_no_image_processor(tmp_path: Path) -> None:
    source = huggingface_folder(tmp_path / "a")
    (source / "preprocessor_config.json").unlink()
    assert "preprocessor_config.json is missing; save the image processor" in refusal(
        read_huggingface_vit, source
    )
    assert "it must be vit_mae" in refusal(read_mae, huggingface_folder(tmp_path / "b"))


def test_names_in_memory_are_those_in_files(tmp_path: Path) -> None:
    """transformers 5 renames its tensors when it saves them; a state dict has the other names."""
    reference = read_huggingface_vit(huggingface_folder(tmp_path / "a"))
    source = huggingface_folder(tmp_path / "b")
    renamed = load_file(source / "model.safetensors")
    for old, new in (
        ("encoder.layer.", "layers."),
        ("attention.attention.query", "attention.q_proj"),
        ("attention.attention.key", "attention.k_proj"),
        ("attention.attention.value", "attention.v_proj"),
        ("attention.output.dense", "attention.o_proj"),
        ("intermediate.dense", "mlp.fc1"),
        ("output.dense", "mlp.fc2"),
    ):
        renamed = {name.replace(old, new): tensor for name, tensor in renamed.items()}
    save_file(renamed, source / "model.safetensors")
    found = read_huggingface_vit(source)
    assert all(torch.equal(tensor, found.tensors[name]) for name, tensor in reference.tensors.items())


def test_dropout_is_imported(tmp_path: Path) -> None:
    """ViT drops embeddings, attention weights and both branches; the encoder of ViTMAE no embeddings."""
    config = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3}
    vit = huggingface_folder(tmp_path / "vit", config=config)
    mae = huggingface_folder(tmp_path / "mae", config={**config, "model_type": "vit_mae"})
    change(mae, classifier__weight=None, classifier__bias=None)
    for found, embedding in ((read_huggingface_vit(vit), 0.2), (read_mae(mae), 0.0)):
        model = found.recipe.model
        assert isinstance(model.block, TransformerSpec)
        dropouts = (model.embedding_dropout, model.block.dropout, model.block.attention_dropout)
        assert dropouts == (embedding, 0.2, 0.3)
    wrong = huggingface_folder(tmp_path / "a", config={"hidden_dropout_prob": 2})
    assert "hidden_dropout_prob is 2; it must be a number from 0 to 1" in refusal(read_huggingface_vit, wrong)


@pytest.mark.parametrize(("name", "own"), [("gelu_python", "gelu"), ("gelu_python_tanh", "gelu_tanh")])
def test_python_versions_of_an_activation_are_the_activation(tmp_path: Path, name: str, own: str) -> None:
    block = read_huggingface_vit(
        huggingface_folder(tmp_path / "a", config={"hidden_act": name})
    ).recipe.model.block
    assert isinstance(block, TransformerSpec)
    assert isinstance(block.mlp, TwoLayerMLPSpec)
    assert block.mlp.activation == own


def test_classes_and_preprocessing(tmp_path: Path) -> None:
    crop = {"do_center_crop": True, "crop_size": {"height": 8, "width": 8}, "size": {"shortest_edge": 10}}
    found = read_huggingface_vit(huggingface_folder(tmp_path / "a", **crop, do_normalize=False, resample=3))
    data, stem = found.recipe.data, found.recipe.model.stem
    assert (data.crop, data.crop_fraction, data.resample) == ("resized_center", 0.8, "bicubic")
    assert stem.mean == (0, 0, 0)
    assert found.classes == ("a", "b", "c")
    assert read_huggingface_vit(huggingface_folder(tmp_path / "b"), ("x", "y", "z")).classes == (
        "x",
        "y",
        "z",
    )
