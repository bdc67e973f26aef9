"""Losses of masked, denoising and next-patch regression against other code: transformers' ViTMAE and masked
ViT, and PyTorch's encoder layers for prefix attention.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from isopix.codecs.patches import FullPatchSpec
from isopix.core.random import generator
from isopix.interop.vit_read import read_huggingface_vit
from isopix.model.decoder import DecoderMaskingSpec
from isopix.model.heads import RegressionHeadSpec
from isopix.model.masking import MaskingSpec, MaskTokenMaskingSpec
from isopix.model.network import Network
from isopix.objectives.base import ObjectiveSpec, PretrainModel, TrainingBatch
from isopix.objectives.denoising import Denoising
from isopix.objectives.masks import BlockMask
from isopix.objectives.objectives import Masked
from isopix.recipes import registry
from isopix.recipes.recipe import Recipe
from tests.golden.test_vit import SIZES, pixel_values, saved
from tests.golden.vits import images, randomized

transformers = pytest.importorskip("transformers", reason="the reference is in the extra bench")
modeling_vit_mae = pytest.importorskip("transformers.models.vit_mae.modeling_vit_mae")
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PLAIN = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}  # pixels in [-1, 1], as our targets


def masked(corruption: MaskingSpec) -> Masked:
    return Masked(mask=BlockMask(ratio=0.75, side=1), corruption=corruption)


def with_encoder(folder: Path, objective: ObjectiveSpec, head: RegressionHeadSpec) -> tuple[Recipe, Network]:
    """A network with their encoder, and a decoder of random weights."""
    imported = read_huggingface_vit(folder)
    codec = FullPatchSpec(patch_size=8)
    recipe = imported.recipe.updated(objective=objective, codec=codec, head=head, depth=3)
    network = recipe.build(codec.build(recipe.grid))
    encoder = {name: each for name, each in imported.network().tensors().items() if "masking" not in name}
    network.load({**network.tensors(), **{n: t for n, t in encoder.items() if n in network.tensors()}})
    return recipe, network.eval()


@torch.no_grad()
def loss(recipe: Recipe, network: Network, batch: TrainingBatch) -> float:
    return recipe.objective.loss(network, batch).item()


def copy(ours: nn.Module, theirs: nn.Module, names: dict[str, str]) -> None:
    for own, their in names.items():
        source = theirs.get_submodule(their).state_dict()
        ours.get_submodule(own).load_state_dict(source)


def test_the_loss_of_a_masked_autoencoder(tmp_path: Path) -> None:
    decoder = {"decoder_hidden_size": 16, "decoder_num_hidden_layers": 2, "decoder_num_attention_heads": 2}
    config = transformers.ViTMAEConfig(
        **SIZES, **decoder, decoder_intermediate_size=32, norm_pix_loss=True, mask_ratio=0.75
    )
    theirs = randomized(transformers.ViTMAEForPreTraining(config))
    nn.init.zeros_(theirs.decoder.decoder_pred.bias)  # which our head does not have
    folder = saved(theirs, tmp_path / "theirs", **PLAIN)
    spec = DecoderMaskingSpec(decoder_depth=2, decoder_width=16, decoder_heads=2)
    recipe, network = with_encoder(folder, masked(spec), RegressionHeadSpec(normalize=True))
    own, other = network.backbone.decoder, theirs.decoder
    copy(own, other, {"embed": "decoder_embed", "norm": "decoder_norm"})
    own.token.data = other.mask_token.data[0, 0]
    own.positions.table = nn.Buffer(other.decoder_pos_embed.data[0, 1:])
    network.head.project.weight.data = other.decoder_pred.weight.data
    for block, layer in zip(own.blocks, other.decoder_layers, strict=True):
        copy(
            block,
            layer,
            {"norm1": "layernorm_before", "norm2": "layernorm_after", "attention.out": "attention.o_proj"},
        )
        copy(block, layer, {"mlp.up": "mlp.fc1", "mlp.down": "mlp.fc2"})
        parts = [getattr(layer.attention, name) for name in ("q_proj", "k_proj", "v_proj")]
        block.attention.qkv.weight.data = torch.cat([part.weight for part in parts])
        block.attention.qkv.bias.data = torch.cat([part.bias for part in parts])
    batch = PretrainModel(network, recipe.objective).make_batch(images(), generator(0, "test"))
    noise = batch.mask[..., 0].float() + torch.arange(16) / 1000  # visible positions first
    with torch.no_grad():
        output = theirs(pixel_values=pixel_values(folder, images()), noise=noise)
    assert output.mask.bool().equal(batch.mask[..., 0])
    # Ours is half the squared error.
    assert 2 * loss(recipe, network, batch) == pytest.approx(output.loss.item(), rel=1e-5)


def masked_vit() -> nn.Module:
    config = transformers.ViTConfig(**SIZES, encoder_stride=8)
    theirs = randomized(transformers.ViTForMaskedImageModeling(config))
    nn.init.zeros_(theirs.decoder[0].bias)
    return theirs


def copy_head(network: Network, theirs: nn.Module) -> None:
    # Their decoder shuffles channels (c p q) to pixels; ours are (p q c).
    kernel = theirs.decoder[0].weight.data[..., 0, 0].view(3, 8, 8, -1)
    network.head.project.weight.data = kernel.permute(1, 2, 0, 3).reshape(192, -1)


def test_the_loss_of_simmim(tmp_path: Path) -> None:
    theirs = masked_vit()
    folder = saved(theirs, tmp_path / "theirs", **PLAIN)
    objective = masked(MaskTokenMaskingSpec())
    recipe, network = with_encoder(folder, objective, RegressionHeadSpec(error="absolute"))
    network.backbone.masking.token.data = theirs.vit.embeddings.mask_token.data[0, 0]
    copy_head(network, theirs)
    batch = PretrainModel(network, recipe.objective).make_batch(images(), generator(0, "test"))
    with torch.no_grad():
        output = theirs(pixel_values=pixel_values(folder, images()), bool_masked_pos=batch.mask[..., 0])
    assert loss(recipe, network, batch) == pytest.approx(output.loss.item(), rel=1e-5)


def test_the_loss_of_denoising(tmp_path: Path) -> None:
    theirs = masked_vit()
    folder = saved(theirs, tmp_path / "theirs", **PLAIN)
    recipe, network = with_encoder(folder, Denoising(), RegressionHeadSpec())
    copy_head(network, theirs)
    drawn = recipe.objective.make_batch(images(), network.codec, generator(0, "test"))
    batch = PretrainModel(network, recipe.objective).make_batch(images(), generator(0, "test"))
    with torch.no_grad():
        output = theirs(pixel_values=pixel_values(folder, drawn.inputs))
    error = output.reconstruction - (images() / 127.5 - 1)
    assert 2 * loss(recipe, network, batch) == pytest.approx(error.square().mean().item(), rel=1e-5)


def residual_mlp(norm: nn.Module, mlp: nn.Module, tokens: Tensor) -> Tensor:
    layers = nn.Sequential(nn.LayerNorm(24, 1e-6), nn.Linear(24, 96), nn.GELU(), nn.Linear(96, 24))
    for layer, own in zip((layers[0], layers[1], layers[3]), (norm, mlp.up, mlp.down), strict=True):
        layer.load_state_dict(own.state_dict())
    return tokens + layers(tokens)


def test_the_loss_of_next_patches_after_a_prefix() -> None:
    head = ("objective.corruption.head_depth=2", "objective.corruption.head_width=24")
    words = ("depth=2", "width=16", "size=16", "attention_bias=true", "block.mlp.bias=true", *head)
    recipe = registry.resolve("patches.aim", settings=words).recipe
    network = recipe.build(recipe.model.codec.build(recipe.grid)).eval()
    randomized(network)
    batch = PretrainModel(network, recipe.objective).make_batch(images()[..., :16, :16], generator(0, "test"))
    backbone, total = network.backbone, torch.zeros(())
    for image in range(3):
        length = int((~batch.mask[image]).sum())
        blocked = torch.ones(16, 16, dtype=torch.bool).triu(1)
        blocked[:, :length] = False
        with torch.no_grad():
            tokens = backbone.embed_each(batch.inputs[image : image + 1])
            for block in backbone.blocks:
                layer = nn.TransformerEncoderLayer(
                    16, 4, 64, 0.0, "gelu", 1e-6, batch_first=True, norm_first=True
                )
                layer.self_attn.in_proj_weight.data = block.attention.qkv.weight
                layer.self_attn.in_proj_bias.data = block.attention.qkv.bias
                names = {"self_attn.out_proj": "attention.out", "linear1": "mlp.up", "linear2": "mlp.down"}
                copy(layer, block, {**names, "norm1": "norm1", "norm2": "norm2"})
                tokens = layer(tokens, src_mask=blocked)
            mlps = backbone.decoder
            tokens = nn.functional.linear(backbone.norm(tokens), mlps.embed.weight, mlps.embed.bias)
            sines = modeling_vit_mae.build_2d_sinusoidal_position_embedding(4, 4, 24).view(4, 4, 24)
            tokens = tokens + sines.transpose(0, 1).reshape(16, 24)  # columns first, as MAE's code
            for layer in mlps.layers:
                tokens = residual_mlp(layer.norm, layer.mlp, tokens)
            predicted = nn.functional.linear(mlps.norm(tokens), network.head.project.weight)[0]
        patches = images()[image, :, :16, :16].float().unfold(1, 4, 4).unfold(2, 4, 4)  # [3 4 4 p q]
        patches = patches.permute(1, 2, 3, 4, 0).reshape(16, 48) / 127.5 - 1
        targets = (patches - patches.mean(1, keepdim=True)) / (patches.var(1, keepdim=True) + 1e-6).sqrt()
        total += (predicted[length - 1 : 15] - targets[length:]).square().mean() / 2
    assert loss(recipe, network, batch) == pytest.approx(total.item() / 3, rel=1e-5)
