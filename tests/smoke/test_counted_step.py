"""The memory of a parallel step agrees to the byte with what real ranks hold."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from isopix.recipes import registry
from isopix.recipes.results import TrainingMemory
from isopix.recipes.sharding_memory import TrainingWork, device_memory, sharding_units

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
SMALL = "depth=2 width=32 batch_size=8"
SHORT = [
    f"igpt.digits {SMALL} parallel=ddp accumulate=2",
    f"igpt.digits {SMALL} parallel=fsdp",
    f"igpt.digits {SMALL} parallel=fsdp accumulate=2 precision=bf16 recompute=true",
    f"igpt.digits_bert {SMALL} parallel=fsdp precision=bf16",  # the last block runs at some positions only
]
LONG = [
    *SHORT,
    f"igpt.digits {SMALL} parallel=fsdp tie_blocks=true optimizer=adamw",
    f"vit.tiny {SMALL} parallel=fsdp accumulate=2",
    f"igpt.digits {SMALL} width=36 parallel=fsdp",  # shards with padding
    "igpt.digits depth=3 width=640 batch_size=8 parallel=ddp",  # several buckets
]


def counted(num_ranks: int, conditions: list[str]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={num_ranks}"),
            *(str(ROOT / "tests" / "counted_step.py"), *conditions),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "TORCH_CPP_LOG_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"words"')]


@pytest.mark.parametrize(
    ("num_ranks", "conditions"), [(2, SHORT), pytest.param(4, LONG, marks=pytest.mark.slow)]
)
def test_the_model_of_a_step_agrees_with_real_ranks_to_the_byte(
    num_ranks: int, conditions: list[str]
) -> None:
    found = counted(num_ranks, conditions)
    assert len(found) == num_ranks * len(conditions)
    for each in found:
        name, *settings = each["words"].split()
        recipe = registry.resolve(name, settings=settings).recipe
        train = recipe.train
        work = TrainingWork(sharding_units(recipe.outline()), TrainingMemory(0, 0, 0), train)
        sizes = device_memory(work, train.parallel, num_ranks, accumulate=train.accumulate)
        if each["rank"] == 0:  # it has the largest part of every weight
            assert (each["weights"], each["optimizer"]) == (sizes.weights, sizes.optimizer), each
            assert each["gradients"] == sizes.weights, each
            assert train.accumulate == 1 or each["before_last_chunk"] == sizes.gradients, each
