"""Training throughput of the networks of the inductive-bias study, compared with the same networks in plain
eager fp32 PyTorch. Prints JSON.

    python bench/isotropic.py --blocks conv mixer --depth 3 --batch 4 --repeats 3
    python bench/isotropic.py --device cuda --batch 128 --compile

Width 128, 1024 positions, 15 % masked; --family isotropic.tiny- selects the tiny networks. Both have the
same weights (with a random head, else all losses were ln 256), images (uniform random pixels) and masks, and
run interleaved in one process. The losses of the first step are compared before timing.
"""

import argparse
import statistics
from typing import Any

import plain_pytorch
import torch
from measure import alternate, compare, print_result

from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.recipes.cost import recipe_cost
from isopix.recipes.isotropic import BLOCKS, ENCODINGS
from isopix.recipes.recipe import Recipe
from isopix.train.tasks import PretrainTask
from isopix.train.train_step import TrainStep

TOLERANCE = {"bf16": 1e-2, "fp32": 1e-4}  # relative difference of the first losses
FACTOR = 0.01  # of the paper's learning rate, since random pixels cannot be learned


def main() -> None:
    """Compare and time the selected networks."""
    options = parse()
    device = torch.device(options.device)
    networks = [
        measure(registry.find(f"{options.family}{block}-{options.encoding}-{options.depth}"), options, device)
        for block in options.blocks
    ]
    print_result(
        "training throughput, compared with the same network in plain PyTorch",
        device,
        comparisons=[each.pop("comparison") for each in networks],
        networks=networks,
    )


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", default="isotropic.", choices=["isotropic.", "isotropic.tiny-"])
    parser.add_argument("--blocks", nargs="+", default=list(BLOCKS), choices=list(BLOCKS))
    parser.add_argument("--encoding", default="pix2vec", choices=list(ENCODINGS))
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--precision", default="bf16", choices=list(TOLERANCE))
    return parser.parse_args()


def measure(recipe: Recipe, options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Return throughput, first losses and speedup of one network."""
    network = recipe.build(recipe.model.codec.placeholder(recipe.grid)).to(device)
    with torch.no_grad():
        head = torch.randn(network.head.project.weight.shape, generator=generator(0, "head"))
        network.head.project.weight.copy_(0.02 * head)
    model = PretrainModel(network, recipe.objective)
    other = plain_pytorch.convert(network, recipe)
    shape = (options.batch, 3, *recipe.grid)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator(0, "bench")).to(device)
    stepper = TrainStep(
        PretrainTask(model),
        recipe.train.optimizer,
        accumulate=1,
        precision=options.precision,
        compiled=options.compile,
    )
    optimizer = torch.optim.Adam(other.parameters(), lr=FACTOR * 0.01, eps=1e-7)
    losses: dict[str, float] = {}

    def isopix_step() -> None:
        problem = model.make_batch(images, generator(0, "bench"))
        loss = stepper(problem, step=1, lr_factor=FACTOR)["loss_nats"]
        if "isopix" not in losses:
            losses["isopix"] = float(loss)

    def plain_step() -> None:
        uniform = torch.rand(options.batch, recipe.grid.positions, 1, generator=generator(0, "bench"))
        optimizer.zero_grad()
        loss = other(images, (uniform < 0.15).to(device))
        loss.backward()
        optimizer.step()
        if "plain" not in losses:
            losses["plain"] = float(loss.detach())

    isopix_step()
    plain_step()
    difference = abs(losses["isopix"] / losses["plain"] - 1)
    if difference > TOLERANCE[options.precision]:
        raise SystemExit(f"{recipe.name}: first losses {losses} differ: the networks are not equal")
    calls = {"isopix": isopix_step, "plain": plain_step}
    times = alternate(calls, repeats=options.repeats, warmup=2, device=device)
    setup = f"{recipe.name}, batch {options.batch}, {options.precision}{', compiled' * options.compile}"
    return {
        "recipe": recipe.name,
        "first_losses": losses,
        "images_per_second": {
            name: options.batch / statistics.median(seconds) for name, seconds in times.items()
        },
        "training_flops_per_image": recipe_cost(recipe).training_flops,
        "comparison": compare(
            f"training step, {setup}", "plain PyTorch, eager fp32", times["isopix"], times["plain"]
        ),
    }


if __name__ == "__main__":
    main()
