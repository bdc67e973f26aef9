"""Sampling throughput, compared with `generate` of Hugging Face's ImageGPT. Prints JSON.

    python bench/sample.py --recipe igpt.tiny --batch 16 --repeats 3
    python bench/sample.py --recipe igpt.s --batch 128 --device cuda

Both have the same weights and a KV cache, and sample every position at temperature 1 without top-k. Their
greedy codes are compared first.
"""

import argparse

import peer
import torch
from measure import alternate, compare, print_result

from isopix.core import device as devices
from isopix.generate.sample import SamplingConfig, fill_in, uniform_numbers
from isopix.objectives.base import PretrainModel
from isopix.recipes import registry


def main() -> None:
    """Build both, compare greedy codes, then time sampling."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="igpt.tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--precision", default="fp32")
    options = parser.parse_args()
    device = torch.device(options.device)
    recipe = registry.find(options.recipe)
    count = torch.arange(recipe.model.codec.num_colors)
    colors = torch.stack([count % 8, count // 8 % 8, count // 64], 1).float() * 32
    network = recipe.build(recipe.model.codec.build(recipe.grid, colors)).to(device).eval()
    with torch.no_grad():
        network.head.project.weight.normal_(std=0.5, generator=torch.Generator(device).manual_seed(0))
    other = peer.convert(network).eval()
    other.config.use_cache = True
    prompt = torch.zeros(options.batch, 3, *recipe.grid, dtype=torch.uint8, device=device)
    positions = recipe.grid.positions
    model = PretrainModel(network, recipe.objective)
    uniform = uniform_numbers(network, ((0, "bench", image) for image in range(options.batch)))

    def sample(sampling: SamplingConfig) -> torch.Tensor:
        with devices.autocast(device, options.precision):
            drawn = fill_in(model, prompt, sampling=sampling, uniform=uniform)
        return network.codec.encode(drawn)[..., 0]

    def generate(**settings: object) -> torch.Tensor:
        ids = torch.full((options.batch, 1), network.codec.vocab_size, device=device)
        with torch.inference_mode(), devices.autocast(device, options.precision):
            drawn = other.generate(ids, max_length=positions + 1, use_cache=True, pad_token_id=0, **settings)
        return drawn[:, 1:]

    match = (sample(SamplingConfig(top_k=1)) == generate(do_sample=False)).float().mean()
    calls = {
        "isopix": lambda: sample(SamplingConfig()),
        "huggingface": lambda: generate(do_sample=True, temperature=1.0, top_k=0),
    }
    times = alternate(calls, repeats=options.repeats, warmup=0, device=device)
    task = f"sampling {options.batch} images,  {recipe.name}, {options.precision}"
    name = f"transformers {peer.VERSION} generate"
    print_result(
        "sampling throughput, compared with Hugging Face's generate",
        device,
        comparisons=[compare(task, name, times["isopix"], times["huggingface"])],
        greedy_match=float(match),
        images_per_second={each: options.batch / min(seconds) for each, seconds in times.items()},
    )


if __name__ == "__main__":
    main()
