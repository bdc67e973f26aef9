"""The whole initialisation as one table: which tensor starts how."""

import math
import re
from collections.abc import Callable

import torch
from torch import nn

# A parameter's name and the deviation of its normal start, given width D and depth L (OpenAI's code: only the
# attention's output is scaled by depth). 0 means zeros; norm gains start at one.
RULES: tuple[tuple[str, Callable[[int, int], float]], ...] = (
    (r"attention\.qkv\.weight$", lambda width, depth: 1 / math.sqrt(width)),
    (r"attention\.out\.weight$", lambda width, depth: 1 / math.sqrt(width * depth)),
    (r"mlp\.(up|down)\.weight$", lambda width, depth: 0.02),
    (r"stem\.tables\.\d+\.weight$", lambda width, depth: 0.02),
    (r"masking\.start$", lambda width, depth: 0.02),
    (r"positions\.table$", lambda width, depth: 0.01),
    (r"head\.project\.weight$", lambda width, depth: 0.0),
    (r"\.bias$", lambda width, depth: 0.0),
)
ONES = r"norm\d?\.weight$"


@torch.no_grad()
def initialise(network: nn.Module, *, width: int, depth: int, generator: torch.Generator) -> None:
    """Draw every parameter anew, in the order of their names; raises AssertionError for one without a
    rule.
    """
    for name, parameter in sorted(network.named_parameters()):
        if re.search(ONES, name):
            parameter.fill_(1)
            continue
        deviations = [rule(width, depth) for pattern, rule in RULES if re.search(pattern, name)]
        assert len(deviations) == 1, f"{len(deviations)} initialisation rules for {name}"
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * deviations[0])
