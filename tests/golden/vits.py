"""What comparisons of Vision Transformers share: random weights and images, and our hidden states."""

import torch
from torch import Tensor, nn

from isopix.core.types import Images
from isopix.interop.imported_model import ImportedModel

TOLERANCE = 1e-5  # relative to the largest value


def randomized(theirs: nn.Module, deviation: float = 0.15) -> nn.Module:
    """Every weight but MAE's fixed positions drawn anew, so that each of them matters."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=draw) * deviation)
    return theirs.eval()


def images(count: int = 3) -> Images:
    draw = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=draw)


def own_states(imported: ImportedModel, pixels: Images, mask: Tensor | None = None) -> list[Tensor]:
    network = imported.network().eval()
    with torch.no_grad():
        states = list(network.backbone.hidden_states(network.inputs_of(pixels), mask))
        return [*states, network.backbone.norm(states[-1])]


def assert_equal_states(own: list[Tensor], theirs: list[Tensor]) -> None:
    assert len(own) == len(theirs)
    for ours, reference in zip(own, theirs, strict=True):
        assert (ours - reference).abs().max() <= TOLERANCE * reference.abs().max()
