"""Sampling throughput, next to `generate` of Hugging Face's ImageGPT; several completions of one image, next
to independent ones.

Both have the same weights and a cache, and sample every position at temperature 1 without top-k. Their greedy
codes are compared first, in float32. Each side counts at its better precision; bf16 is not tried where it is
emulated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from speed import image_gpt, networks
from speed.benchmark import OWN, TINY, Benchmark, Measured, RecipeSize
from speed.numerics import require_equal
from speed.timing import Stopwatch, Work
from speed.training import matmul_bounds
from torch import Tensor, nn

from isopix.core.device import Precision, autocast
from isopix.generate.complete import Prompt, complete_images
from isopix.generate.mask import completion_mask
from isopix.generate.results import SamplingConfig
from isopix.generate.sample import sample_images
from isopix.model.network import Network
from isopix.objectives.base import PretrainModel
from isopix.recipes.cost import recipe_cost

GREEDY = SamplingConfig(top_k=1)
EQUAL_CODES = 0.99  # rounding may decide between nearly equal logits, and all codes after it
TINY_RECIPE = "igpt.digits depth=1 width=16"
FAITHFUL = "igpt.tiny"


@dataclass(frozen=True)
class SamplingSize(RecipeSize):
    """Whether fp32 is tried where bf16 is not emulated, and whether compiled steps of `generate` are."""

    try_fp32: bool = True
    compiled_peer: bool = True


def measure_sampling(size: SamplingSize, watch: Stopwatch) -> Measured:
    """Compare whole images; the greedy ones that are checked are the warm-up."""
    recipe = networks.find_recipe(size.recipe)
    network = networks.random_network(recipe, watch.device).eval()
    model = PretrainModel(network, recipe.objective)
    other = image_gpt.with_weights_of(network).eval()
    checked = require_equal_greedy_codes(model, other, size.batch)

    eager = other.forward
    forward = {False: eager} | ({True: torch.compile(eager)} if size.compiled_peer else {})

    def sampler(precision: Precision, compiled: bool) -> Callable[[], Tensor]:
        sampling = SamplingConfig(precision=precision, compile=compiled)
        return partial(sample_images, model, size.batch, sampling=sampling, batch_size=size.batch)

    def generator(precision: Precision, compiled: bool) -> Callable[[], Tensor]:
        def generate_images() -> Tensor:
            other.forward = forward[compiled]
            with autocast(watch.device, precision):
                return generate(other, network, size.batch, do_sample=True, temperature=1.0, top_k=0)

        return generate_images

    peer = f"{image_gpt.library_name()} generate"
    sides = {
        OWN: sampling_works(size, watch, sampler),
        peer: sampling_works(size, watch, generator, compiled=(False,)),
    }
    if size.compiled_peer:
        sides[f"{peer}, compiled"] = sampling_works(size, watch, generator, compiled=(True,))
    timed = watch.alternate(sides)
    bounds = matmul_bounds(recipe_cost(recipe).forward_flops, recipe.model.width, watch)
    return Measured(checked=checked, times=timed.times | bounds, errors=timed.errors)


def measure_recipes(size: SamplingSize, watch: Stopwatch) -> Measured:
    """Compare a recipe with the faithful one of its size."""

    def works(name: str) -> dict[str, Work]:
        recipe = networks.find_recipe(name)
        model = PretrainModel(networks.random_network(recipe, watch.device).eval(), recipe.objective)
        call = partial(sample_images, model, size.batch, sampling=SamplingConfig(), batch_size=size.batch)
        return {"fp32": Work(call=call, items=size.batch)}

    timed = watch.alternate({OWN: works(size.recipe), FAITHFUL: works(FAITHFUL)})
    return Measured(checked="random weights", times=timed.times, errors=timed.errors)


def sampling_works(
    size: SamplingSize,
    watch: Stopwatch,
    make: Callable[[Precision, bool], Callable[[], Tensor]],
    compiled: tuple[bool, ...] | None = None,
) -> dict[str, Work]:
    """Return the work at each precision, eager and compiled; comparing codes has warmed up the first."""
    choices = compiled or ((False, True) if size.compiled else (False,))
    return {
        f"{precision}, compiled" if choice else precision: Work(
            call=make(precision, choice), items=size.batch, warm_up=choice, optional=choice
        )
        for precision in (watch.precisions if size.try_fp32 else (watch.precision,))
        for choice in choices
    }


def require_equal_greedy_codes(model: PretrainModel, other: nn.Module, batch: int) -> str:
    """Return how many greedy codes of both are equal. Raises NumericsError if too few are."""
    images = sample_images(model, batch, sampling=GREEDY, batch_size=batch)
    codes = model.network.codec.encode(images.to(model.network.device))[..., 0]
    theirs = generate(other, model.network, batch, do_sample=False)
    return require_equal("greedy codes", theirs, codes, EQUAL_CODES)


@torch.inference_mode()
def generate(other: Any, network: Network, batch: int, **settings: object) -> Int[Tensor, "B N"]:
    """Return the codes that the peer generates after the start token, with its cache."""
    ids = torch.full((batch, 1), network.codec.vocab_size, device=network.device)
    length = network.codec.grid.positions + 1
    attended = torch.ones_like(ids)
    codes: Tensor = other.generate(
        ids, attention_mask=attended, max_length=length, use_cache=True, pad_token_id=0, **settings
    )
    return codes[:, 1:]


@dataclass(frozen=True)
class CompletionSize(SamplingSize):
    """Several completions, `batch` of them, of the first rows of one image."""

    rows: int = 16

    def label(self) -> str:
        return f"{super().label()}, {self.rows} rows given"


def measure_completions(size: CompletionSize, watch: Stopwatch) -> Measured:
    """Compare completions that share the given rows with completions of as many equal images."""
    recipe = networks.find_recipe(size.recipe)
    network = networks.random_network(recipe, watch.device).eval()
    model = PretrainModel(network, recipe.objective)
    image = networks.random_images(recipe, 1, torch.device("cpu"))

    def completer(prompt: Prompt, sampling: SamplingConfig) -> Callable[[], Tensor]:
        return lambda: (
            complete_images(model, prompt._replace(sampling=sampling), batch_size=size.batch).images
        )

    shared, independent = (
        Prompt(images, completion_mask(f"rows:{size.rows}", network.codec, len(images)), each)
        for images, each in ((image, size.batch), (image.expand(size.batch, -1, -1, -1).contiguous(), 1))
    )
    together, apart = (completer(each, GREEDY)() for each in (shared, independent))
    checked = require_equal("greedy pixels", together, apart.transpose(0, 1), EQUAL_CODES)

    def works(prompt: Prompt) -> dict[str, Work]:
        return sampling_works(
            size,
            watch,
            lambda precision, compiled: completer(
                prompt, SamplingConfig(precision=precision, compile=compiled)
            ),
        )

    timed = watch.alternate({OWN: works(shared), f"{size.batch} independent completions": works(independent)})
    return Measured(checked=checked, times=timed.times, errors=timed.errors)


SAMPLING = ("sampling all pixels", "transformers generate", measure_sampling)
OF_RECIPES = ("sampling all pixels", FAITHFUL, measure_recipes)
COMPLETIONS = ("completions of one image", "independent completions", measure_completions)
LARGE = {
    "cuda": SamplingSize("igpt.s", batch=128, try_fp32=False, compiled_peer=False),
    TINY: SamplingSize(TINY_RECIPE, batch=2, compiled=False, compiled_peer=False),
}
OF_ONE_IMAGE = {
    "cpu": CompletionSize("igpt.tiny", batch=8),
    "cuda": CompletionSize("igpt.s", batch=8, try_fp32=False),
    TINY: CompletionSize(TINY_RECIPE, batch=3, rows=4, compiled=False),
}
# Of a network whose keys and values do not fit in the caches of a CPU.
WIDER = {"cpu": CompletionSize("igpt.tiny depth=6 width=512 heads=8", batch=8)}
BENCHMARKS: tuple[Benchmark[Any], ...] = (
    *(
        Benchmark(
            f"sampling.batch-{batch}", *SAMPLING, {"cpu": SamplingSize("igpt.tiny", batch)}, image_gpt.NEEDS
        )
        for batch in (4, 16, 32)
    ),
    *(
        Benchmark(f"sampling.modern-{batch}", *OF_RECIPES, {"cpu": SamplingSize("modern.tiny", batch)})
        for batch in (1, 16, 32)
    ),
    Benchmark("sampling.batch-128", *SAMPLING, LARGE, image_gpt.NEEDS),
    Benchmark("completions.of-one-image", *COMPLETIONS, OF_ONE_IMAGE),
    Benchmark("completions.wider", *COMPLETIONS, WIDER),
)
