import pytest
import torch

from isopix.core.types import Grid
from isopix.model.blocks.transformer import TransformerBlock, TransformerSpec
from isopix.model.mlp import LayerNormSpec, TwoLayerMLPSpec

PAPER = Grid(32, 32)


@pytest.mark.parametrize(("expansion", "parameters"), [(1, 99_584), (4, 198_272)])
@pytest.mark.parametrize("heads", [1, 4])
def test_the_isotropic_studys_parameters(heads: int, expansion: int, parameters: int) -> None:
    mlp = TwoLayerMLPSpec(expansion=expansion)
    block = TransformerSpec(heads=heads, attention_bias=True, norm=LayerNormSpec(), mlp=mlp)
    built = block.build(PAPER, 128, causal=False)
    assert sum(parameter.numel() for parameter in built.parameters()) == parameters


@pytest.mark.parametrize(("expansion", "flops"), [(1, 720_896), (4, 917_504)])
def test_the_isotropic_studys_flops(expansion: int, flops: int) -> None:
    block = TransformerSpec(heads=4, mlp=TwoLayerMLPSpec(expansion=expansion))
    assert block.flops(PAPER, 128, causal=False) == 1024 * flops


def block_of(**settings: float) -> tuple[TransformerBlock, torch.Tensor]:
    torch.manual_seed(0)
    return TransformerSpec(heads=2, **settings).build(PAPER, 8, causal=False), torch.randn(4, 6, 8)


def test_dropout_of_the_residual_branches_zeroes_and_scales() -> None:
    block, tokens = block_of(dropout=0.25)
    torch.nn.init.zeros_(block.mlp.down.weight)  # the attention alone adds something
    whole = block.eval()(tokens) - tokens
    dropped = block.train()(tokens) - tokens
    kept = dropped.abs() > 1e-6
    assert torch.allclose(dropped[kept], (whole / 0.75)[kept], atol=1e-5)
    assert 0.6 < kept.float().mean() < 0.9


def test_dropout_of_attention_weights_keeps_the_mean() -> None:
    block, tokens = block_of(attention_dropout=0.25)
    attention = block.attention
    whole = attention.eval()(tokens)
    drawn = torch.stack([attention.train()(tokens) for _ in range(4000)])
    assert (drawn.mean(0) - whole).abs().max() < 5 * drawn.std(0).max() / 4000**0.5
    assert drawn.std(0).min() > 0


def test_no_dropout_in_evaluation_mode() -> None:
    block, tokens = block_of(dropout=0.5, attention_dropout=0.5)
    plain, _ = block_of()
    plain.load_state_dict(block.state_dict())
    assert torch.equal(block.eval()(tokens), plain.train()(tokens))
