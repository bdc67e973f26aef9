"""Reports of probes, as one process and as each of several computes them; a command for the latter."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from isopix.core import ranks
from isopix.data.dataset import DataConfig, load_dataset
from isopix.probing import feature_extraction, features
from isopix.probing.config import ProbeConfig
from isopix.probing.feature_splits import Features
from isopix.probing.sgd import SgdProbe
from isopix.recipes import registry
from isopix.runs.load import LoadedRun
from isopix.runs.probe import probe_run
from isopix.runs.state import State
from isopix.train.parallel import process_group

POSITIONS = 64  # of an image
QUICK = ProbeConfig(l2_grid=(0.1,), l2_extra=(), num_resamples=5)
SGD = replace(QUICK, method=SgdProbe(iterations=3, batch_size=16, lr_grid=(1.0, 0.1)))
# Recipe, settings of the probe, images of a batch; each split has 60.
CASES = {
    "batches that two do not divide": ("igpt.digits", QUICK, 25),
    "the untrained network is in the cache": ("igpt.digits", QUICK, 25),
    "fewer batches than processes": ("igpt.digits", replace(QUICK, layer=1), 100),
    "masks": ("igpt.digits_bert", replace(QUICK, mask_ensemble=2), 25),
    "features in 16 bits": ("igpt.digits_bert", SGD, 25),
    "all features are in the cache": ("igpt.digits_bert", SGD, 25),
}


def reports() -> Iterator[tuple[str, dict[str, Any], list[int]]]:
    """Yield name and report of each case, and how many images this process read in each view."""
    calls, extract = list[int](), features.iter_features

    def counted(network: Any, images: Any, **options: Any) -> Iterator[Features]:
        found = list(extract(network, images, **options))
        calls.append(sum(batch.shape[1] for batch in found))
        return iter(found)

    feature_extraction.iter_features = counted
    try:
        for name, (recipe, config, size) in CASES.items():
            features.CPU_POSITIONS = size * POSITIONS
            calls.clear()
            yield name, report(recipe, config), list(calls)
    finally:
        feature_extraction.iter_features = extract


def report(name: str, config: ProbeConfig) -> dict[str, Any]:
    """Probe a network with weights that no seed would give."""
    recipe = registry.resolve(name, assignments=["depth=2", "width=16"]).recipe
    grays = torch.linspace(0, 255, 17)[:, None].expand(17, 3).contiguous()
    network = recipe.build(recipe.model.codec.build(recipe.grid, grays))
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw), alpha=0.3)
    data = load_dataset(DataConfig(source="digits", rows=8, cols=8, limit=60))
    loaded = LoadedRun(recipe, network.eval(), State(step=7))
    return probe_run(loaded, data, precision="fp32", config=config).to_dict()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")
    with process_group("cpu"):
        result = {name: [found, calls] for name, found, calls in reports()}
        Path(sys.argv[1], f"rank-{ranks.rank()}.json").write_text(json.dumps(result))
    ranks.end_process()
