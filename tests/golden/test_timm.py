"""Our Vision Transformers against timm's, and against PyTorch's layers under the names of timm."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import isopix
from isopix.finetuning.evaluate import predict_logits
from isopix.interop.vit_read import read_timm
from tests.golden.vits import TOLERANCE, assert_equal_states, images, own_states, randomized
from tests.trained import load_finetuned

WIDTH, CLASSES = 24, 4
NAMES = {
    "self_attn.in_proj_": "attn.qkv.",
    "self_attn.out_proj": "attn.proj",
    "linear1": "mlp.fc1",
    "linear2": "mlp.fc2",
}


def layer() -> nn.Module:
    settings: Any = {"dropout": 0.0, "activation": "gelu", "layer_norm_eps": 1e-6}
    return nn.TransformerEncoderLayer(WIDTH, 3, 4 * WIDTH, batch_first=True, norm_first=True, **settings)


class TorchViT(nn.Module):
    """A Vision Transformer of PyTorch's layers."""

    def __init__(self) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.zeros(1, 17, WIDTH))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, WIDTH, 8, 8)})
        self.blocks = nn.ModuleList([layer(), layer()])
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, CLASSES)

    def states(self, x: Tensor) -> list[Tensor]:
        patches = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        states = [torch.cat([self.cls_token.expand(len(x), -1, -1), patches], 1) + self.pos_embed]
        for block in self.blocks:
            states.append(block(states[-1]))
        return [*states, self.norm(states[-1])]


CROP = {"interpolation": "bicubic", "crop_pct": 0.9, "crop_mode": "center"}
IMAGES = {"input_size": [3, 32, 32], "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.4], **CROP}
TIMM = {"architecture": "vit_tiny_patch8_32", "num_classes": CLASSES, "pretrained_cfg": IMAGES}


def test_layers_of_pytorch_under_the_names_of_timm(tmp_path: Path) -> None:
    theirs, named = randomized(TorchViT()), {}
    for name, tensor in theirs.state_dict().items():
        for old, new in NAMES.items():
            name = name.replace(old, new)  # noqa: PLW2901
        named[name] = tensor
    torch.save(named, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps(TIMM))
    imported = read_timm(tmp_path)
    data = imported.recipe.data
    assert (data.crop, data.crop_fraction, data.resample) == ("resized_center", 0.9, "bicubic")
    mean, std = (torch.tensor(IMAGES[name])[:, None, None] for name in ("mean", "std"))
    with torch.no_grad():
        reference = theirs.states((images() / 255 - mean) / std)
        assert_equal_states(own_states(imported, images()), reference)
        logits = theirs.head(reference[-1][:, 0])
    isopix.import_model(tmp_path, tmp_path / "run")
    tuned = load_finetuned(tmp_path / "run")
    own = predict_logits(tuned.model, images(), None, precision="fp32")
    assert (own - logits).abs().max() <= TOLERANCE * logits.abs().max()
    assert tuned.classes == ("0", "1", "2", "3")


def test_timm_itself(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm", reason="timm is not required")
    hub = pytest.importorskip("timm.models._hub")
    sizes = {"depth": 2, "embed_dim": 24, "num_heads": 3, "num_classes": 4, "img_size": 32, "patch_size": 8}
    theirs = randomized(timm.create_model("vit_tiny_patch16_224", **sizes))
    hub.save_for_hf(theirs, tmp_path, model_args=sizes)
    isopix.import_model(tmp_path, tmp_path / "run")
    tuned = load_finetuned(tmp_path / "run")
    values = images() / 127.5 - 1
    with torch.no_grad():
        logits, (states, last) = theirs(values), _timm_states(theirs, values)
    network = tuned.loaded.network
    own = list(network.backbone.hidden_states(network.inputs_of(images())))
    assert_equal_states([*own[1:], network.backbone.norm(own[-1])], [*states, last])
    found = predict_logits(tuned.model, images(), None, precision="fp32")
    assert (found - logits).abs().max() <= TOLERANCE * logits.abs().max()


def _timm_states(theirs: nn.Module, values: Tensor) -> tuple[list[Tensor], Tensor]:
    last, states = theirs.forward_intermediates(values, return_prefix_tokens=True, output_fmt="NLC")
    return [torch.cat([prefix, patches], 1) for patches, prefix in states], last
