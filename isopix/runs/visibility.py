"""A check before training that no prediction depends on the pixels that it predicts."""

from operator import attrgetter

import torch
from torch import Tensor

from isopix.codecs.base import Codec
from isopix.core.random import generator
from isopix.core.types import Codes, Mask
from isopix.model.network import Network
from isopix.objectives.base import PretrainModel, TrainingBatch
from isopix.recipes.recipe import Recipe

IMAGES, PLACES = 2, 8  # random images, and positions of each that are tested
NOISE = 0.1  # standard deviation of what is added to weights: those that start at zero would hide a leak
TOLERANCE = 1e-5  # of the largest value: Fourier transforms round what they add up to zero

RULES = {
    "model.stem": "a stem computes the vectors of each position from its own pixels alone",
    "objective.corruption": "it has to hide those pixels from the blocks",
    "model.block": "with causal=True, outputs of a block depend on the same and earlier positions alone",
    "model.head": "a head reads each position alone",
}
"""What each part has to do, in the order in which a network runs them."""


@torch.no_grad()
def check_visibility(recipe: Recipe, codec: Codec, device: torch.device) -> None:
    """Raise ValueError for a part by which predictions depend on what they predict: in autoregressive models
    on the pixels of the same or later positions, in masked ones on those of the same position.

    Codes of random images are changed in a network of one block with random weights, which takes less time
    and memory than a step of training.
    """
    objective, draw = recipe.objective, generator(0, "visibility")
    if not recipe.predicts_codes:
        return
    network = recipe.updated(depth=1).build(codec)
    for parameter in network.parameters():
        if parameter.requires_grad:  # another may be a causal mask
            parameter.add_(torch.randn(parameter.shape, generator=draw), alpha=NOISE)
    network.to(device).eval()
    shape = (IMAGES, codec.grid.positions, codec.num_codes)
    codes = torch.randint(codec.vocab_size, shape, generator=draw).to(device)
    batch = PretrainModel(network, objective).make_batch(codec.decode(codes), draw)
    if batch.mask is None and not objective.can_sample:
        return  # the objective shows its targets
    for own, chunk in zip(codes.chunk(IMAGES), batch.chunks(IMAGES), strict=True):
        _check_image(recipe, network, own, chunk, draw)


def _check_image(
    recipe: Recipe, network: Network, codes: Codes, batch: TrainingBatch, draw: torch.Generator
) -> None:
    mask, secret = batch.mask, batch.loss_mask if batch.mask is None else batch.loss_mask & batch.mask
    before, vocab_size = [_stem(network, codes), *_outputs(network, codes, mask)], network.codec.vocab_size
    others, position = (codes + vocab_size // 2) % vocab_size, torch.arange(codes.shape[1]).to(codes.device)
    places = secret[0].any(-1).nonzero()[:, 0].cpu()
    for place in places[torch.randperm(len(places), generator=draw)[:PLACES]].tolist():
        changed = watched = own = position == place
        if recipe.objective.can_sample or recipe.objective.predicts_next:
            changed, watched = position >= place + recipe.objective.predicts_next, position <= place
        one, every = (torch.where(secret & each[:, None], others, codes) for each in (own, changed))
        after = [_stem(network, one), *_outputs(network, every, mask)]
        for setting, a, b in zip(RULES, before, after, strict=True):
            moved = ((a - b).abs() > TOLERANCE * a.abs().max()).any(-1)[0]
            if (moved & (~own if setting == "model.stem" else watched)).any():
                raise ValueError(_problem(recipe, setting, place))


def _stem(network: Network, codes: Codes) -> Tensor:
    return torch.cat(network.backbone.stem(network.inputs_of_codes(codes)), -1)


def _outputs(network: Network, codes: Codes, mask: Mask | None) -> list[Tensor]:
    """Return what the blocks read and return, and the parameters of predictions, each [1 N _]."""
    backbone = network.backbone
    embedded, last = backbone.hidden_states(network.inputs_of_codes(codes), mask)
    tokens = backbone.decoder_input(backbone.norm(last), mask)
    return [backbone.patch_tokens(embedded), tokens, network.head(tokens).flatten(2)]


def _problem(recipe: Recipe, setting: str, place: int) -> str:
    in_order = recipe.objective.can_sample
    if not in_order and setting != "model.stem":
        setting = "objective.corruption"  # by which pixels have come this far
    part = attrgetter(setting)(recipe)
    pixels = "the same or later pixels" if in_order else "its own masked pixels"
    depends = f"the prediction of position {place} depends on {pixels}"
    if setting == "model.stem":
        depends = f"other positions depend on the pixels of position {place}"
    return f"{setting}={part.kind} ({part.label()}): {depends}; {RULES[setting]}"
