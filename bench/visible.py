"""What does a PatchFormer gain by running over visible patches alone? Training images a second and peak
memory beside the same network over all patches, with a learned vector at each that is hidden. Prints JSON.

    python bench/visible.py --recipe patchformer.tiny --batch 32 --repeats 5
    python bench/visible.py --device cuda --batch 128 --repeats 20        # patchformer.base, 224 x 224

Same images (uniform random pixels), masks, stem, blocks and decoder, same precision, in one process, A-B-A-B.
Both start at exactly ln 4 nats. Peak memory is of one network alone, on CUDA.
"""

import argparse
import math
import statistics
from dataclasses import replace

import torch
from measure import alternate, answer, ratio

from isopix.core.random import generator
from isopix.core.types import Images
from isopix.model.masking import DropMaskingSpec, MaskTokenMaskingSpec
from isopix.objectives.base import PretrainModel
from isopix.objectives.masked import Masked
from isopix.recipes import registry
from isopix.recipes.cost import of_recipe
from isopix.recipes.recipe import Recipe
from isopix.train.tasks import Pretraining
from isopix.train.train_step import Stepper

MASKINGS = {"visible patches": DropMaskingSpec(), "all patches": MaskTokenMaskingSpec()}


class Training:
    """Steps of a recipe's network on the same images, over and over."""

    def __init__(self, recipe: Recipe, images: Images, precision: str):
        network = recipe.build(recipe.model.codec.placeholder(recipe.grid)).to(images.device)
        self.model = PretrainModel(network, recipe.objective)
        self.images, self.losses = images, list[torch.Tensor]()
        self.stepper = Stepper(
            Pretraining(self.model),
            recipe.train.optimizer,
            accumulate=1,
            precision=precision,
            compiled=False,
        )

    def step(self) -> None:
        """One step, masks drawn anew."""
        problem = self.model.make_batch(self.images, generator(0, "bench", len(self.losses)))
        self.losses.append(self.stepper.advance(problem, step=1, factor=1.0))


def main() -> None:
    """Measure the memory of each alone, then time both."""
    options = read()
    recipe, device = registry.find(options.recipe), torch.device(options.device)
    shape = (options.batch, 3, recipe.data.rows, recipe.data.cols)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator(0, "bench")).to(device)
    recipes = {name: replace(recipe, objective=_hiding(recipe, name)) for name in MASKINGS}
    memory = {name: peak(each, images, options.precision) for name, each in recipes.items()}
    trainings = {name: Training(each, images, options.precision) for name, each in recipes.items()}
    calls = {name: training.step for name, training in trainings.items()}
    times = alternate(calls, repeats=options.repeats, warmup=2, device=device)
    first = {name: float(training.losses[0]) for name, training in trainings.items()}
    if any(abs(loss - math.log(4)) > 1e-3 for loss in first.values()):
        raise SystemExit(f"{recipe.name}: first losses {first} are not ln 4")
    how = f"{recipe.name}, {shape[2]}x{shape[3]}, batch {options.batch}, {options.precision}"
    ours, theirs = (times[name] for name in MASKINGS)
    answer(
        "training images a second of a PatchFormer over visible patches alone",
        device,
        ratios=[ratio(f"training step, {how}", "the same network over all patches", ours, theirs)],
        first_losses=first,
        images_per_second={name: options.batch / statistics.median(taken) for name, taken in times.items()},
        peak_bytes=memory,
        training_flops_per_image={name: of_recipe(each).training_flops for name, each in recipes.items()},
    )


def read() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="patchformer.base")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precision", default="bf16")
    return parser.parse_args()


def _hiding(recipe: Recipe, name: str) -> Masked:
    """The recipe's objective, with this in the place of what is hidden."""
    assert isinstance(recipe.objective, Masked), f"{recipe.name} hides nothing"
    return replace(recipe.objective, corruption=MASKINGS[name])


def peak(recipe: Recipe, images: Images, precision: str) -> int | None:
    """Bytes that two steps take at most; None where the device does not count them."""
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
