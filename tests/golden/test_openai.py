"""Our iGPT against OpenAI's graph, written out from its description, and against a checkpoint that TensorFlow
wrote.
"""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from isopix.core.types import Images, Mask
from isopix.interop.openai import find_prefix, open_checkpoint, read_checkpoint
from isopix.model.network import Network
from tests.unit.interop import bundles
from tests.unit.interop.models import palette, revived

Array = NDArray[np.float64]
Variables = dict[str, Array]

HERE = Path(__file__).parent / "openai-bundle"
COLORS = 16
SHAPES = {"2x16, one head": (2, 16, 1), "3x24, three heads": (3, 24, 3)}


def norm(x: Array, gain: Array) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gain


def softmax(x: Array) -> Array:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def attention(x: Array, v: Variables, here: str, *, causal: bool) -> Array:
    query, key, value = (np.einsum("bsf,hef->bhse", x, v[f"{here}/{part}_proj"]) for part in "qkv")
    weights = np.einsum("bhse,bhte->bhst", query, key) / np.sqrt(query.shape[-1])
    if causal:
        seen = np.tril(np.ones(weights.shape[-2:]))
        weights = weights * seen - 1e10 * (1 - seen)
    mixed = np.einsum("bhst,bhte->bhse", softmax(weights), value)
    return np.einsum("bhse,hef->bsf", mixed, v[f"{here}/c_proj"])


def mlp(x: Array, v: Variables, here: str) -> Array:
    inner = x @ v[f"{here}/c_fc/w"]
    return (inner / (1 + np.exp(-1.702 * inner))) @ v[f"{here}/c_proj/w"]


def reference(v: Variables, codes: NDArray[np.int64], *, depth: int, keep: Array | None) -> Array:
    """Logits [B N K] of OpenAI's graph: autoregressive without `keep`, else with what is 0 there left out."""
    h = v["wte"][codes]
    if keep is None:
        start = np.broadcast_to(v["sos"], (len(h), 1, h.shape[-1]))
        h = np.concatenate([start, h[:, :-1]], 1)
    else:
        h = h * keep[..., None]
    h = h + v["wpe"]
    for layer in range(depth):
        here = f"h{layer}"
        h = h + attention(norm(h, v[f"{here}/ln_1/g"]), v, f"{here}/attn", causal=keep is None)
        h = h + mlp(norm(h, v[f"{here}/ln_2/g"]), v, f"{here}/mlp")
    return norm(h, v["ln_f/g"]) @ v["wtet"].T


def pixels(net: Network) -> tuple[Images, NDArray[np.int64]]:
    draw = torch.Generator().manual_seed(1)
    codes = torch.randint(0, net.codec.vocab_size, (3, net.codec.grid.positions, 1), generator=draw)
    return net.codec.decode(codes), codes[..., 0].numpy()


def check_logits(net: Network, model: Variables, hidden: Mask | None) -> None:
    images, codes = pixels(net)
    keep = None if hidden is None else 1.0 - hidden[..., 0].double().numpy()
    wanted = reference(model, codes, depth=net.backbone.depth, keep=keep)
    with torch.no_grad():
        own = net.head.project(net.backbone(net.inputs_of(images), hidden))
    assert np.abs(wanted).max() > 1
    torch.testing.assert_close(own, torch.from_numpy(wanted), rtol=0, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
@pytest.mark.parametrize("start", [True, False], ids=["autoregressive", "masked"])
def test_logits_are_the_graphs(tmp_path: Path, start: bool, shape: tuple[int, int, int]) -> None:
    depth, width, heads = shape
    sizes = {"depth": depth, "width": width, "heads": heads, "colors": COLORS, "positions": 36}
    model = bundles.variables(**sizes, start=start)
    bundles.write(tmp_path / "model.ckpt-1", model, shards=2)
    net = revived(read_checkpoint(tmp_path / "model.ckpt-1", palette(COLORS))).double()
    exact = {name.removeprefix("model/"): array.astype(np.float64) for name, array in model.items()}
    hidden = None if start else torch.rand(3, 36, 1, generator=torch.Generator().manual_seed(2)) < 0.15
    check_logits(net, exact, hidden)


def test_a_checkpoint_that_tensorflow_wrote_is_read_bit_for_bit() -> None:
    script = runpy.run_path(str(HERE / "write.py"))  # which needs no TensorFlow to say what it has written
    bundle, values = open_checkpoint(find_prefix(HERE)), script["values"]()
    for name, array in values.items():
        if array.dtype == np.float32:
            np.testing.assert_array_equal(bundle.read(name).numpy(), array, strict=True)
    imported = read_checkpoint(HERE, palette(script["COLORS"]))
    assert {"global_step", "beta1_power", "model/clf/w", "model/wte/Adam_1"} <= imported.skipped.keys()
    assert imported.skipped.keys() | values.keys() == bundle.shapes.keys()
    assert imported.step == script["STEP"]
    exact = {name.removeprefix("model/"): array.astype(float) for name, array in values.items()}
    check_logits(revived(imported).double(), exact, None)
