"""How many images a second does a training step of a cell of the inductive-bias study take, beside the same
network written plainly in eager fp32 PyTorch? Prints JSON.

    python bench/isotropic.py --blocks conv mixer --depth 3 --batch 4 --repeats 3
    python bench/isotropic.py --device cuda --batch 128 --compile

Width 128, 1024 positions, 15 % hidden; with --family isotropic.tiny- the tiny cells. Same weights (the head's
drawn, or all losses would be ln 256), same images (uniform random pixels), same masks, in one process, A-B-A-
B. The losses of the first step are compared before anything is timed.
"""

import argparse
import statistics
from typing import Any

import plain
import torch
from measure import alternate, answer, ratio

from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.recipes.cost import of_recipe
from isopix.recipes.isotropic import BLOCKS, ENCODINGS
from isopix.recipes.recipe import Recipe
from isopix.train.tasks import Pretraining
from isopix.train.train_step import Stepper

CLOSE = {"bf16": 1e-2, "fp32": 1e-4}  # relative difference of the first losses
FACTOR = 0.01  # of the paper's learning rate, for random pixels have nothing to learn


def main() -> None:
    """Compare and time every cell that was asked for."""
    options = read()
    device = torch.device(options.device)
    cells = [
        measured(
            registry.find(f"{options.family}{block}-{options.encoding}-{options.depth}"), options, device
        )
        for block in options.blocks
    ]
    answer(
        "training images a second, beside the same network in plain PyTorch",
        device,
        ratios=[cell.pop("ratio") for cell in cells],
        cells=cells,
    )


def read() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", default="isotropic.", choices=["isotropic.", "isotropic.tiny-"])
    parser.add_argument("--blocks", nargs="+", default=list(BLOCKS), choices=list(BLOCKS))
    parser.add_argument("--encoding", default="pix2vec", choices=list(ENCODINGS))
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--precision", default="bf16", choices=list(CLOSE))
    return parser.parse_args()


def measured(recipe: Recipe, options: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """Rates, first losses and the ratio of one cell."""
    network = recipe.build(recipe.model.codec.placeholder(recipe.grid)).to(device)
    with torch.no_grad():
        head = torch.randn(network.head.project.weight.shape, generator=generator(0, "head"))
        network.head.project.weight.copy_(0.02 * head)
    model = PretrainModel(network, recipe.objective)
    theirs = plain.twin(network, recipe)
    shape = (options.batch, 3, *recipe.grid)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator(0, "bench")).to(device)
    stepper = Stepper(
        Pretraining(model),
        recipe.train.optimizer,
        accumulate=1,
        precision=options.precision,
        compiled=options.compile,
    )
    optimizer = torch.optim.Adam(theirs.parameters(), lr=FACTOR * 0.01, eps=1e-7)
    losses: dict[str, float] = {}

    def our_step() -> None:
        problem = model.make_batch(images, generator(0, "bench"))
        loss = stepper.advance(problem, step=1, factor=FACTOR)
        if "isopix" not in losses:
            losses["isopix"] = float(loss)

    def their_step() -> None:
        drawn = torch.rand(options.batch, recipe.grid.positions, 1, generator=generator(0, "bench"))
        optimizer.zero_grad()
        loss = theirs(images, (drawn < 0.15).to(device))
        loss.backward()
        optimizer.step()
        if "plain" not in losses:
            losses["plain"] = float(loss.detach())

    our_step()
    their_step()
    difference = abs(losses["isopix"] / losses["plain"] - 1)
    if difference > CLOSE[options.precision]:
        raise SystemExit(f"{recipe.name}: first losses {losses} differ: not the same network")
    calls = {"isopix": our_step, "plain": their_step}
    times = alternate(calls, repeats=options.repeats, warmup=2, device=device)
    how = f"{recipe.name}, batch {options.batch}, {options.precision}{', compiled' * options.compile}"
    return {
        "recipe": recipe.name,
        "first_losses": losses,
        "images_per_second": {
            name: options.batch / statistics.median(taken) for name, taken in times.items()
        },
        "training_flops_per_image": of_recipe(recipe).training_flops,
        "ratio": ratio(f"training step, {how}", "plain PyTorch, eager fp32", times["isopix"], times["plain"]),
    }


if __name__ == "__main__":
    main()
