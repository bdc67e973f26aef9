"""The published losses apply to OpenAI's models as they are imported, after a million steps."""

import pytest
import torch
from isopix.papers.published import PublishedResult, find_published

from isopix.codecs.palette import Palette
from isopix.codecs.palette_file import OPENAI_FINGERPRINT
from isopix.core.types import Grid
from isopix.interop.imported_model import igpt_recipe
from isopix.model.blocks.transformer import TransformerSpec
from isopix.objectives.objectives import Autoregressive, Masked
from isopix.recipes.published import TEST_LOSSES

COLORS = torch.cartesian_prod(*[torch.linspace(0, 255, 8)] * 3)
SIZES = {"s": (24, 512, 8, 2.0895), "m": (36, 1024, 8, 2.0614), "l": (48, 1536, 16, 2.0466)}


class PaletteWithFingerprint(Palette):
    """A palette with a given fingerprint."""

    def __init__(self, fingerprint: str):
        super().__init__(COLORS, Grid(32, 32))
        self.stated = fingerprint

    def fingerprint(self) -> str:
        return self.stated


def find(palette: str = OPENAI_FINGERPRINT, **changes: object) -> PublishedResult | None:
    settings = {"grid": Grid(32, 32), "objective": Autoregressive(), "num_colors": len(COLORS)}
    return find_published(TEST_LOSSES, igpt_recipe(**(settings | changes)), PaletteWithFingerprint(palette))


@pytest.mark.parametrize(("depth", "width", "heads", "nats"), SIZES.values(), ids=list(SIZES))
def test_each_imported_model_size_has_its_published_loss(
    depth: int, width: int, heads: int, nats: float
) -> None:
    size = {"depth": depth, "width": width, "block": TransformerSpec(heads=heads)}
    claim = find(**size)
    assert claim is not None
    assert (claim.value, claim.step) == (nats, 1_000_000)
    assert find(**size, objective=Masked()) is None
    assert find("another palette", **size) is None
    assert find(**(size | {"depth": depth + 1})) is None
