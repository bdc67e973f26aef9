"""How many images a second does one training step take, beside Hugging Face's ImageGPT of the same size?
Prints JSON.

    python bench/train_step.py --recipe igpt.tiny --batch 16 --repeats 5
    python bench/train_step.py --recipe igpt.s --batch 64 --device cuda --compile

Same weights, same images (uniform random pixels), same precision, fused Adam, dropout 0, in one process, A-B-
A-B. The losses of the first step are compared before anything is timed. Peak memory is printed on CUDA.
"""

import argparse
import statistics

import peer
import torch
from measure import alternate, answer, ratio
from torch.nn import functional as F

from isopix.codecs import kmeans
from isopix.core import device as devices
from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.recipes.cost import of_recipe
from isopix.train.optim import Adam
from isopix.train.tasks import Pretraining
from isopix.train.train_step import Stepper


def main() -> None:
    """Build both, compare their losses, then time steps of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="igpt.tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--precision", default="bf16")
    options = parser.parse_args()
    device = torch.device(options.device)
    recipe = registry.find(options.recipe)
    grid = recipe.grid
    draw = generator(0, "bench")
    images = torch.randint(
        0, 256, (options.batch, 3, grid.rows, grid.cols), dtype=torch.uint8, generator=draw
    )
    codec = recipe.model.codec.build(grid, kmeans.fit(images, recipe.model.codec.colours).colours)
    network = recipe.build(codec).to(device)
    codec.prepare()
    images = images.to(device)
    theirs = peer.twin(network)
    if options.compile:
        theirs = torch.compile(theirs)
    model = PretrainModel(network, recipe.objective)
    stepper = Stepper(
        Pretraining(model), Adam(), accumulate=1, precision=options.precision, compiled=options.compile
    )
    optimizer = Adam().build(theirs.parameters())
    ids, answers = peer.shifted(network, images), codec.encode(images)[..., 0]
    losses: dict[str, float] = {}

    def ours_step() -> None:
        problem = model.make_batch(images, generator(0, "bench"))
        loss = stepper.advance(problem, step=1, factor=1.0)
        losses.setdefault("isopix", float(loss))

    def their_step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with devices.autocast(device, options.precision):
            logits = theirs(input_ids=ids).logits
        loss = F.cross_entropy(logits.float().flatten(0, 1), answers.flatten())
        loss.backward()
        optimizer.step()
        losses.setdefault("huggingface", float(loss.detach()))

    calls = {"isopix": ours_step, "huggingface": their_step}
    times = alternate(calls, repeats=options.repeats, warmup=3, device=device)
    rates = {name: options.batch / statistics.median(taken) for name, taken in times.items()}
    peak, flops = devices.peak_flops(device, options.precision), of_recipe(recipe).training_flops
    how = f"{recipe.name}, batch {options.batch}, {options.precision}{', compiled' * options.compile}"
    name = f"transformers {peer.VERSION} ImageGPT"
    answer(
        "training images a second, beside Hugging Face's ImageGPT",
        device,
        ratios=[ratio(f"training step, {how}", name, times["isopix"], times["huggingface"])],
        first_losses=losses,
        images_per_second=rates,
        training_flops_per_image=flops,
        mfu=None if peak is None else {name: rate * flops / peak for name, rate in rates.items()},
    )


if __name__ == "__main__":
    main()
