"""Our Vision Transformers against timm's, and against one by its names in plain PyTorch."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import isopix
from isopix.finetuning.evaluate import predict_logits
from isopix.interop.timm import read_timm
from tests.finetuned import load_finetuned
from tests.golden.vits import TOLERANCE, assert_equal_states, images, own_states, randomized


class PlainBlock(nn.Module):
    """A block of timm's VisionTransformer, by its names."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width)})
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, count, width = x.shape
        parts = self.attn["qkv"](self.norm1(x)).reshape(batch, count, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).double()
        weights = (query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5).softmax(-1)
        x = x + self.attn["proj"]((weights @ value).transpose(1, 2).reshape(batch, count, width).float())
        return x + self.mlp["fc2"](nn.functional.gelu(self.mlp["fc1"](self.norm2(x))))


class PlainViT(nn.Module):
    """timm's VisionTransformer, by its names, in plain PyTorch."""

    def __init__(self, width: int = 24, heads: int = 3, depth: int = 2, classes: int = 4):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 17, width))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, width, 8, 8)})
        self.blocks = nn.ModuleList([PlainBlock(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def states(self, x: Tensor) -> Iterator[Tensor]:
        patches = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), patches], 1) + self.pos_embed
        yield x
        for block in self.blocks:
            x = block(x)
            yield x
        yield self.norm(x)


TIMM = {
    "architecture": "vit_tiny_patch8_32",
    "num_classes": 4,
    "global_pool": "token",
    "pretrained_cfg": {
        "input_size": [3, 32, 32],
        "interpolation": "bicubic",
        "crop_pct": 0.9,
        "crop_mode": "center",
        "mean": [0.4, 0.5, 0.6],
        "std": [0.2, 0.3, 0.4],
    },
}


def test_a_state_dict_with_the_names_of_timm(tmp_path: Path) -> None:
    theirs = randomized(PlainViT())
    torch.save(theirs.state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps(TIMM))
    imported = read_timm(tmp_path)
    data = imported.recipe.data
    assert (data.crop, data.crop_fraction, data.resample) == ("resized_center", 0.9, "bicubic")
    images_cfg = TIMM["pretrained_cfg"]
    assert isinstance(images_cfg, dict)
    mean, std = (torch.tensor(images_cfg[name])[:, None, None] for name in ("mean", "std"))
    with torch.no_grad():
        reference = list(theirs.states((images() / 255 - mean) / std))
        assert_equal_states(own_states(imported, images()), reference)
        logits = theirs.head(reference[-1][:, 0])
    isopix.convert_timm(tmp_path, tmp_path / "run")
    tuned = load_finetuned(tmp_path / "run", device=torch.device("cpu"))
    own = predict_logits(tuned.model, images(), None, precision="fp32")
    assert (own - logits).abs().max() <= TOLERANCE * logits.abs().max()
    assert tuned.classes == ("0", "1", "2", "3")


def test_timm_itself(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm", reason="timm is not required")
    hub = pytest.importorskip("timm.models._hub")
    sizes = {"depth": 2, "embed_dim": 24, "num_heads": 3, "num_classes": 4, "img_size": 32, "patch_size": 8}
    theirs = randomized(timm.create_model("vit_tiny_patch16_224", **sizes))
    hub.save_for_hf(theirs, tmp_path, model_args=sizes)
    isopix.convert_timm(tmp_path, tmp_path / "run")
    tuned = load_finetuned(tmp_path / "run", device=torch.device("cpu"))
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
