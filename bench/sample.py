"""How fast are whole images drawn, beside `generate` of Hugging Face's ImageGPT? Prints JSON.

    python bench/sample.py --recipe igpt.tiny --batch 16 --repeats 3
    python bench/sample.py --recipe igpt.s --batch 128 --device cuda

Same weights, every position of every image, temperature 1, no top-k, caches on for both. Greedy codes of both
are compared first.
"""

import argparse

import peer
import torch
from measure import alternate, answer, ratio

from isopix.core import device as devices
from isopix.core.random import generator
from isopix.generate.sample import Sampling, paint
from isopix.recipes import registry


def main() -> None:
    """Build both, compare greedy codes, then time drawing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="igpt.tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--precision", default="fp32")
    options = parser.parse_args()
    device = torch.device(options.device)
    recipe = registry.find(options.recipe)
    count = torch.arange(recipe.model.codec.colours)
    colours = torch.stack([count % 8, count // 8 % 8, count // 64], 1).float() * 32
    network = recipe.build(recipe.model.codec.build(recipe.grid, colours)).to(device).eval()
    with torch.no_grad():
        network.head.project.weight.normal_(std=0.5, generator=torch.Generator(device).manual_seed(0))
    theirs = peer.twin(network).eval()
    theirs.config.use_cache = True
    canvas = torch.zeros(options.batch, 3, *recipe.grid, dtype=torch.uint8, device=device)
    positions = recipe.grid.positions

    def ours(sampling: Sampling) -> torch.Tensor:
        with devices.autocast(device, options.precision):
            drawn = paint(network, canvas, sampling=sampling, generator=generator(0, "bench"))
        return network.codec.encode(drawn)[..., 0]

    def generate(**how: object) -> torch.Tensor:
        ids = torch.full((options.batch, 1), network.codec.vocab_size, device=device)
        with torch.inference_mode(), devices.autocast(device, options.precision):
            drawn = theirs.generate(ids, max_length=positions + 1, use_cache=True, pad_token_id=0, **how)
        return drawn[:, 1:]

    same = (ours(Sampling(top_k=1)) == generate(do_sample=False)).float().mean()
    calls = {
        "isopix": lambda: ours(Sampling()),
        "huggingface": lambda: generate(do_sample=True, temperature=1.0, top_k=0),
    }
    times = alternate(calls, repeats=options.repeats, warmup=0, device=device)
    what = f"{options.batch} whole images of {recipe.name}, {options.precision}"
    name = f"transformers {peer.VERSION} generate"
    answer(
        "images drawn a second, beside Hugging Face's generate",
        device,
        ratios=[ratio(what, name, times["isopix"], times["huggingface"])],
        greedy_codes_equal=float(same),
        images_per_second={each: options.batch / min(taken) for each, taken in times.items()},
    )


if __name__ == "__main__":
    main()
