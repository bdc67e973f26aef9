"""Training throughput and peak memory of a PatchFormer over visible patches only, compared with the same
network over all patches with a mask token at masked ones. Prints JSON.

    python bench/token_dropping.py --recipe patchformer.tiny --batch 32 --repeats 5
    python bench/token_dropping.py --device cuda --batch 128 --repeats 20        # patchformer.base, 224 x 224

Both have the same images (uniform random pixels), masks, stem, blocks, decoder and precision, and run
interleaved in one process. Both start at exactly ln 4 nats. Peak memory is measured per network, on CUDA.
"""

import argparse
import math
import statistics
from dataclasses import replace

import torch
from measure import alternate, compare, print_result

from isopix.core.random import generator
from isopix.core.types import Images
from isopix.model.masking import DropMaskingSpec, MaskTokenMaskingSpec
from isopix.objectives.base import PretrainModel
from isopix.objectives.masked import Masked
from isopix.recipes import registry
from isopix.recipes.cost import recipe_cost
from isopix.recipes.recipe import Recipe
from isopix.train.tasks import PretrainTask
from isopix.train.train_step import TrainStep

MASKINGS = {"visible patches": DropMaskingSpec(), "all patches": MaskTokenMaskingSpec()}


class Training:
    """Training steps of a recipe's network on the same images."""

    def __init__(self, recipe: Recipe, images: Images, precision: str):
        network = recipe.build(recipe.model.codec.placeholder(recipe.grid)).to(images.device)
        self.model = PretrainModel(network, recipe.objective)
        self.images, self.losses = images, list[torch.Tensor]()
        self.stepper = TrainStep(
            PretrainTask(self.model),
            recipe.train.optimizer,
            accumulate=1,
            precision=precision,
            compiled=False,
        )

    def step(self) -> None:
        """Take one step with new masks."""
        problem = self.model.make_batch(self.images, generator(0, "bench", len(self.losses)))
        self.losses.append(self.stepper(problem, step=1, lr_factor=1.0)["loss_nats"])


def main() -> None:
    """Measure the peak memory of each network, then time both."""
    options = parse()
    recipe, device = registry.find(options.recipe), torch.device(options.device)
    shape = (options.batch, 3, recipe.data.rows, recipe.data.cols)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator(0, "bench")).to(device)
    recipes = {name: replace(recipe, objective=_objective(recipe, name)) for name in MASKINGS}
    memory = {name: peak_memory(each, images, options.precision) for name, each in recipes.items()}
    trainings = {name: Training(each, images, options.precision) for name, each in recipes.items()}
    calls = {name: training.step for name, training in trainings.items()}
    times = alternate(calls, repeats=options.repeats, warmup=2, device=device)
    first = {name: float(training.losses[0]) for name, training in trainings.items()}
    if any(abs(loss - math.log(4)) > 1e-3 for loss in first.values()):
        raise SystemExit(f"{recipe.name}: first losses {first} are not ln 4")
    setup = f"{recipe.name}, {shape[2]}x{shape[3]}, batch {options.batch}, {options.precision}"
    visible, every = (times[name] for name in MASKINGS)
    print_result(
        "training throughput of a PatchFormer over visible patches only",
        device,
        comparisons=[compare(f"training step, {setup}", "the same network over all patches", visible, every)],
        first_losses=first,
        images_per_second={
            name: options.batch / statistics.median(seconds) for name, seconds in times.items()
        },
        peak_bytes=memory,
        training_flops_per_image={name: recipe_cost(each).training_flops for name, each in recipes.items()},
    )


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="patchformer.base")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precision", default="bf16")
    return parser.parse_args()


def _objective(recipe: Recipe, name: str) -> Masked:
    """Return the recipe's objective with another masking."""
    assert isinstance(recipe.objective, Masked), f"{recipe.name} masks nothing"
    return replace(recipe.objective, corruption=MASKINGS[name])


def peak_memory(recipe: Recipe, images: Images, precision: str) -> int | None:
    """Return the peak bytes of two steps; None where the device does not report them."""
    if not images.is_cuda:
        return None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    training = Training(recipe, images, precision)
    for _ in range(2):
        training.step()
    return torch.cuda.max_memory_allocated()


if __name__ == "__main__":
    main()
