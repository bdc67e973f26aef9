"""Features of all layers, next to the mean over positions of the hidden states of Hugging Face's ImageGPT."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from speed import image_gpt, networks
from speed.benchmark import OWN, TINY, Benchmark, Measured, Size
from speed.numerics import require_close
from speed.timing import Stopwatch, Work
from speed.training import matmul_bounds
from torch import Tensor, nn

from isopix.core.device import Precision, autocast
from isopix.core.types import Images
from isopix.model.network import Network
from isopix.probing.features import extract_features
from isopix.recipes.cost import recipe_cost

FEATURE_TOLERANCE = 1e-3


@dataclass(frozen=True)
class FeaturesSize(Size):
    """A recipe, the number of images, and the batch sizes that the peer tries."""

    recipe: str
    images: int
    peer_batches: tuple[int, ...]

    def label(self) -> str:
        return f"{self.recipe}, {self.images} images"


def measure_features(size: FeaturesSize, watch: Stopwatch) -> Measured:
    """Compare the pooled features of every layer 0..L, each side in its faster precision and batch size."""
    recipe = networks.find_recipe(size.recipe)
    network = networks.random_network(recipe, watch.device).eval()
    other = image_gpt.with_weights_of(network).eval()
    images = networks.random_images(recipe, size.images, watch.device)
    checked = require_equal_features(network, other, images[: min(size.peer_batches)])

    def ours(precision: Precision) -> Callable[[], object]:
        return lambda: extract_features(network, images, precision=precision)

    def theirs(precision: Precision, batch: int) -> Callable[[], object]:
        def extract() -> Tensor:
            parts = torch.split(images, batch)
            return torch.cat([hidden_means(other, network, part, precision).cpu() for part in parts], 1)

        return extract

    own = {str(each): Work(call=ours(each), items=size.images) for each in watch.precisions}
    peer = {
        f"{each}, batch {batch}": Work(call=theirs(each, batch), items=size.images)
        for each in watch.precisions
        for batch in size.peer_batches
    }
    timed = watch.alternate({OWN: own, f"{image_gpt.library_name()} output_hidden_states": peer})
    bounds = matmul_bounds(recipe_cost(recipe).forward_flops, recipe.model.width, watch)
    return Measured(checked=checked, times=timed.times | bounds, errors=timed.errors)


@torch.no_grad()
def hidden_means(
    other: nn.Module, network: Network, images: Images, precision: Precision = "fp32"
) -> Float[Tensor, "F B D"]:
    """Return the mean over positions of the peer's hidden states 0..L, the last after its norm."""
    with autocast(images.device, precision):
        found = other(input_ids=image_gpt.shift_right(network, images), output_hidden_states=True)
    return torch.stack([state.float().mean(1) for state in found.hidden_states])


def require_equal_features(network: Network, other: nn.Module, images: Images) -> str:
    """Return how well both agree: on the residual stream before the last layer, and on the last after its
    norm. Raises NumericsError if they do not.
    """
    residual = extract_features(network, images, features="residual")
    last = extract_features(network, images, features="normed")[-1:]
    theirs = hidden_means(other, network, images).cpu()
    return require_close("features", theirs, torch.cat([residual[:-1], last]), FEATURE_TOLERANCE)


SIZES = {
    "cpu": FeaturesSize("igpt.tiny", 64, (8, 32)),
    "cuda": FeaturesSize("igpt.s", 512, (32, 128)),
    TINY: FeaturesSize("igpt.digits depth=2 width=16", 4, (2,)),
}
ABOUT = ("features of all layers", "transformers output_hidden_states", measure_features)
BENCHMARKS = (Benchmark("features.all-layers", *ABOUT, SIZES, image_gpt.NEEDS),)
