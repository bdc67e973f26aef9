"""The published losses are those of OpenAI's models, as they are imported, after a million steps."""

import pytest
import torch

from isopix.codecs.palette_file import OPENAI_FINGERPRINT
from isopix.codecs.pixel import Palette
from isopix.core.types import Grid
from isopix.interop.import_run import imported_recipe
from isopix.interop.imported_model import ImportedModel
from isopix.model.blocks import Transformer
from isopix.objectives.autoregressive import Autoregressive
from isopix.objectives.masked import Masked
from isopix.papers.claim import Claim, matching
from isopix.papers.igpt import TEST_LOSSES

COLOURS = torch.cartesian_prod(*[torch.linspace(0, 255, 8)] * 3)
SIZES = {"s": (24, 512, 8, 2.0895), "m": (36, 1024, 8, 2.0614), "l": (48, 1536, 16, 2.0466)}


class Coded(Palette):
    """A palette of which only the fingerprint counts."""

    def __init__(self, fingerprint: str):
        super().__init__(COLOURS, Grid(32, 32))
        self.stated = fingerprint

    def fingerprint(self) -> str:
        return self.stated


def claim_about(palette: str = OPENAI_FINGERPRINT, **changes: object) -> Claim | None:
    about = {
        "origin": "OpenAI model.ckpt-131000",
        "grid": Grid(32, 32),
        "objective": Autoregressive(),
        "colors": COLOURS,
        "step": 131_000,
        "tensors": {},
        "tensor_reports": (),
    }
    return matching(
        TEST_LOSSES, imported_recipe(ImportedModel(**(about | changes)), "digits"), Coded(palette)
    )


@pytest.mark.parametrize(("depth", "width", "heads", "nats"), SIZES.values(), ids=list(SIZES))
def test_each_size_as_it_is_imported_has_its_published_loss(
    depth: int, width: int, heads: int, nats: float
) -> None:
    size = {"depth": depth, "width": width, "block": Transformer(heads=heads)}
    claim = claim_about(**size)
    assert claim is not None
    assert (claim.value, claim.step) == (nats, 1_000_000)
    assert claim_about(**size, objective=Masked()) is None
    assert claim_about("another palette", **size) is None
    assert claim_about(**(size | {"depth": depth + 1})) is None
