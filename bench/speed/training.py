"""Training throughput of autoregressive networks, next to Hugging Face's ImageGPT and to the matrix products
alone.

All have the same weights, images (uniform random pixels) and precision, fused Adam and no dropout. The
learning rate is zero, so that every step has the same loss, which is checked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from cells import PEAK_MEMORY
from speed import image_gpt, networks
from speed.benchmark import OWN, TINY, Benchmark, Measured, RecipeSize
from speed.numerics import TOLERANCES, require_loss
from speed.timing import Stopwatch, Timed, Times, Work, peak_memory
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.core.device import Precision, autocast, peak_flops
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.model.network import Network
from isopix.objectives.base import PretrainModel
from isopix.recipes.cost import recipe_cost
from isopix.train.config import Adam, TrainConfig
from isopix.train.tasks import PretrainTask
from isopix.train.train_step import TrainStep

CHECKED_IMAGES = 2
COMPILED = "compiled"  # the name of an alternative


@dataclass(frozen=True)
class TrainingSize(RecipeSize):
    """`peer_batch` are the images of a peer's batch, 0 where it is not run."""

    peer_batch: int = 0


def measure_training(size: TrainingSize, watch: Stopwatch) -> Measured:
    """Compare our steps in the device's precision with the peer's, on a CPU at every one, and with the matrix
    products alone.
    """
    recipe = networks.find_recipe(size.recipe)
    network = networks.random_network(recipe, watch.device)
    model = PretrainModel(network, recipe.objective)
    images = networks.random_images(recipe, max(size.batch, size.peer_batch), watch.device)
    expected = float_loss(model, images[: size.batch])
    own = own_steps(model, images[: size.batch], precision=watch.precision, compiled=size.compiled)
    sides = {OWN: checked_steps(own, size.batch, expected, TOLERANCES[watch.precision])}
    checked = f"loss {expected:.4f}"
    trained: list[nn.Module] = [network]
    if size.peer_batch:
        other = image_gpt.with_weights_of(network)
        trained.append(other)
        checked += f", {image_gpt.require_equal_logits(network, other, images[:CHECKED_IMAGES])}"
        part = images[: size.peer_batch]
        peer_loss = float_loss(model, part)
        for precision in (watch.precision,) if watch.device.type == "cuda" else watch.precisions:
            peer = peer_steps(other, network, part, precision=precision, compiled=size.compiled)
            sides[f"{image_gpt.library_name()} ImageGPT, {precision}"] = checked_steps(
                peer, size.peer_batch, peer_loss, TOLERANCES[precision]
            )
    timed = watch.alternate(sides)
    bounds = matmul_bounds(recipe_cost(recipe).training_flops, recipe.model.width, watch)
    return Measured(
        checked=checked,
        times=timed.times | bounds,
        errors=timed.errors,
        values=peak_memories(sides, timed, watch.device, trained),
    )


def peak_memories(
    sides: Mapping[str, Mapping[str, Work]], timed: Timed, device: torch.device, trained: Sequence[nn.Module]
) -> dict[str, float | int | None]:
    """Return the peak memory of a step of each alternative that worked, in bytes beyond weights and moments;
    None where the system does not count it.
    """
    found: dict[str, float | int | None] = {}
    for side, works in timed.times.items():
        for name in works:
            for module in trained:
                module.zero_grad(set_to_none=True)  # else those of the last step would count as held before
            found[f"{PEAK_MEMORY}{side}, {name}"] = peak_memory(device, sides[side][name].call)
    return found


@torch.no_grad()
def float_loss(model: PretrainModel, images: Images) -> float:
    """Return the loss of the images in float32, computed one image after the other for its memory."""
    losses = [
        float(model.eval_loss(model.make_batch(image[None], generator(0, "bench")).to(image.device)))
        for image in images
    ]
    return sum(losses) / len(losses)


def own_steps(
    model: PretrainModel, images: Images, *, precision: Precision, compiled: bool
) -> dict[str, Callable[[], Tensor]]:
    def step_of(train_step: TrainStep) -> Callable[[], Tensor]:
        def step() -> Tensor:
            batch = model.make_batch(images, generator(0, "bench"))
            return train_step(batch, step=1, lr_factor=0.0)["loss_nats"]

        return step

    return {
        name: step_of(TrainStep(PretrainTask(model), TrainConfig(precision=precision, compile=is_compiled)))
        for name, is_compiled in alternatives(compiled).items()
    }


def peer_steps(
    other: nn.Module, network: Network, images: Images, *, precision: Precision, compiled: bool
) -> dict[str, Callable[[], Tensor]]:
    ids, targets = image_gpt.shift_right(network, images), network.codec.encode(images)[..., 0]

    def step_of(forward: Callable[..., Tensor]) -> Callable[[], Tensor]:
        optimizer = Adam().build(other.named_parameters())
        for group in optimizer.param_groups:
            group["lr"] = 0.0

        def step() -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            with autocast(images.device, precision):
                loss = forward(ids, targets)
            torch.autograd.backward(loss)
            optimizer.step()
            return loss.detach()

        return step

    def loss_of(ids: Tensor, targets: Tensor) -> Tensor:
        logits = other(input_ids=ids).logits
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    return {
        name: step_of(torch.compile(loss_of) if is_compiled else loss_of)
        for name, is_compiled in alternatives(compiled).items()
    }


def alternatives(compiled: bool) -> dict[str, bool]:
    return {"eager": False, COMPILED: True} if compiled else {"eager": False}


def matmul_bounds(flops: float, width: int, watch: Stopwatch) -> dict[str, dict[str, Times]]:
    """Return the seconds of an item's FLOPs at the rate of matrix products that is measured here, and at the
    data-sheet peak where it is known: the speedup over them is the utilization.
    """
    rate = watch.matmul_rate(width)
    peak = peak_flops(watch.device, watch.precision)
    bounds = {f"its FLOPs at the measured rate of matrix products, {rate / 1e12:.3g} TFLOP/s": rate}
    if peak is not None:
        bounds[f"its FLOPs at the data-sheet peak, {peak / 1e12:.0f} TFLOP/s"] = peak
    return {name: {"": Times([flops / each])} for name, each in bounds.items()}


def checked_steps(
    steps: Mapping[str, Callable[[], Tensor]],
    images: int,
    expected: float,
    tolerance: float,
    what: str = "training step",
) -> dict[str, Work]:
    """Return the work of training steps on this many images; the loss of each is checked, and a compiled one
    that is wrong is left out.
    """

    def check(loss: object) -> None:
        assert isinstance(loss, Tensor)
        require_loss(what, float(loss), expected, tolerance)

    return {
        name: Work(call=step, items=images, check=check, optional=name == COMPILED)
        for name, step in steps.items()
    }


IMAGE_GPT = ("training step", "transformers ImageGPT", measure_training)
PRODUCTS = ("training step", "matrix products", measure_training)
TINY_SIZE = TrainingSize("igpt.digits depth=1 width=16", batch=2, peer_batch=2, compiled=False)
SMALL = {"cpu": TrainingSize("igpt.tiny", batch=16, peer_batch=16), TINY: TINY_SIZE}
WIDER = {"cpu": TrainingSize("igpt.tiny depth=6 width=256 heads=4", batch=16, peer_batch=16)}
# Eager attention of the peer takes 2 GiB an image: 32 leave room for both.
PAPER = {"cuda": TrainingSize("igpt.s", batch=64, peer_batch=32)}
BENCHMARKS = (
    Benchmark("training.igpt-tiny", *IMAGE_GPT, SMALL, image_gpt.NEEDS),
    Benchmark("training.igpt-6x256", *IMAGE_GPT, WIDER, image_gpt.NEEDS),
    Benchmark("training.igpt-s", *IMAGE_GPT, PAPER, image_gpt.NEEDS),
)
LARGE = (  # they take long to compile
    Benchmark("training.igpt-m", *PRODUCTS, {"cuda": TrainingSize("igpt.m", batch=32)}),
    Benchmark("training.igpt-l", *PRODUCTS, {"cuda": TrainingSize("igpt.l", batch=16)}),
)
