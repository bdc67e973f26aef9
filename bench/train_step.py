"""Training throughput, compared with Hugging Face's ImageGPT of the same size. Prints JSON.

    python bench/train_step.py --recipe igpt.tiny --batch 16 --repeats 5
    python bench/train_step.py --recipe igpt.s --batch 64 --device cuda --compile

Both have the same weights, images (uniform random pixels) and precision, fused Adam and no dropout, and run
interleaved in one process. The losses of the first step are compared before timing.
"""

import argparse
import statistics

import peer
import torch
from measure import alternate, compare, print_result
from torch.nn import functional as F

from isopix.codecs import kmeans
from isopix.core import device as devices
from isopix.core.random import generator
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry
from isopix.recipes.cost import recipe_cost
from isopix.train.optim import Adam
from isopix.train.tasks import PretrainTask
from isopix.train.train_step import TrainStep


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
    rng = generator(0, "bench")
    images = torch.randint(0, 256, (options.batch, 3, grid.rows, grid.cols), dtype=torch.uint8, generator=rng)
    codec = recipe.model.codec.build(grid, kmeans.fit_palette(images, recipe.model.codec.num_colors).colors)
    network = recipe.build(codec).to(device)
    codec.build_table()
    images = images.to(device)
    other = peer.convert(network)
    if options.compile:
        other = torch.compile(other)
    model = PretrainModel(network, recipe.objective)
    stepper = TrainStep(
        PretrainTask(model), Adam(), accumulate=1, precision=options.precision, compiled=options.compile
    )
    optimizer = Adam().build(other.parameters())
    ids, targets = peer.shift_right(network, images), codec.encode(images)[..., 0]
    losses: dict[str, float] = {}

    def isopix_step() -> None:
        problem = model.make_batch(images, generator(0, "bench"))
        loss = stepper(problem, step=1, lr_factor=1.0)["loss_nats"]
        losses.setdefault("isopix", float(loss))

    def huggingface_step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with devices.autocast(device, options.precision):
            logits = other(input_ids=ids).logits
        loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        losses.setdefault("huggingface", float(loss.detach()))

    calls = {"isopix": isopix_step, "huggingface": huggingface_step}
    times = alternate(calls, repeats=options.repeats, warmup=3, device=device)
    throughput = {name: options.batch / statistics.median(seconds) for name, seconds in times.items()}
    peak, flops = devices.peak_flops(device, options.precision), recipe_cost(recipe).training_flops
    setup = f"{recipe.name}, batch {options.batch}, {options.precision}{', compiled' * options.compile}"
    name = f"transformers {peer.VERSION} ImageGPT"
    print_result(
        "training throughput, compared with Hugging Face's ImageGPT",
        device,
        comparisons=[compare(f"training step, {setup}", name, times["isopix"], times["huggingface"])],
        first_losses=losses,
        images_per_second=throughput,
        training_flops_per_image=flops,
        mfu=None if peak is None else {name: rate * flops / peak for name, rate in throughput.items()},
    )


if __name__ == "__main__":
    main()
