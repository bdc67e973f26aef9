"""Three real layers: scanned digits through a small transformer whose weights are drawn once."""

from functools import cache

import torch
from jaxtyping import Float
from sklearn.datasets import load_digits
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.types import Codes as CodeTensor
from isopix.core.types import Grid, Images, Labels
from isopix.model.backbone import Backbone
from isopix.model.blocks import Transformer
from isopix.model.init import initialise
from isopix.model.masking import ZeroOut
from isopix.model.norms import RootMeanSquare
from isopix.model.positions import Learned
from isopix.model.stems.codes import Codes

WIDTH, DEPTH = 32, 2
STEP = 15  # between two of the scans' 17 grey levels, in an image of 0..255


class Greys(Codec):
    """The 17 grey levels of scikit-learn's digits."""

    grid, codes, levels, cell = Grid(8, 8), 1, 17, 1

    def encode(self, images: Images) -> CodeTensor:
        return (images[:, :1].long() // STEP).flatten(2).mT

    def decode(self, codes: CodeTensor, grid: Grid | None = None) -> Images:
        raise NotImplementedError

    def fingerprint(self) -> str:
        return "greys"


@cache
def digits() -> tuple[Images, Labels]:
    """All 1,797 scans as colour images, and which digit each is."""
    data = load_digits()
    grey = torch.from_numpy(data.images).to(torch.uint8) * STEP
    return grey[:, None].expand(-1, 3, -1, -1).contiguous(), torch.from_numpy(data.target)


def backbone() -> Backbone:
    """An untrained network in which content and place both matter."""
    codec, block = Greys(), Transformer(heads=2)
    parts = [Codes().build(codec, WIDTH), ZeroOut().build(WIDTH), Learned().build(codec.grid, WIDTH)]
    blocks = [block.build(codec.grid, WIDTH, False) for _ in range(DEPTH)]
    network = Backbone(codec.grid, parts, blocks, RootMeanSquare().build(WIDTH))
    initialise(network, width=WIDTH, depth=DEPTH, generator=torch.Generator().manual_seed(0))
    return network


def clusters(
    images: int, width: int, classes: int, *, spread: float = 1.0
) -> tuple[Float[Tensor, "1 B D"], Labels]:
    """Points around one centre a class, as one layer of features."""
    draw = torch.Generator().manual_seed(images + width)
    labels = torch.arange(images) % classes
    centres = torch.randn(classes, width, generator=draw)
    return (centres[labels] + spread * torch.randn(images, width, generator=draw))[None], labels
