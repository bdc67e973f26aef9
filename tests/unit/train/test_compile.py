"""Compiled code equals plain code up to rounding; in processes without the tests' type checks."""

import subprocess
import sys

import pytest
import torch

PROGRAM = """
import sys
import torch
from tests.laws import cases as law_cases
from isopix.core.random import generator
from isopix.train.tasks import PretrainTask
from isopix.train.config import TrainConfig
from isopix.train.train_step import TrainStep

cases = [case for case in law_cases.CASES if case.objective.kind == sys.argv[1]]
recipe = next(case for case in cases if case.model.codec.num_colors == 32)
for compiled in (False, True):
    task = PretrainTask(law_cases.model(recipe))
    task.module.network.codec.build_table()
    train_step = TrainStep(task, TrainConfig(precision="fp32", compile=compiled))
    for step in range(1, 4):
        batch = task.make_batch(law_cases.images(recipe, 8), None, generator(0, "step", step))
        print(float(train_step(batch, step=step, lr_factor=1.0)["loss_nats"]))
"""


ATTENTION = """
import torch, warnings
warnings.simplefilter("error", UserWarning)
from isopix.core.random import generator
from isopix.model import attention
from isopix.model.attention import Attention

own = attention.lacks_matrix_units
for lacks in (own, lambda: True, lambda: False):
    attention.lacks_matrix_units = lacks
    torch.compiler.reset()
    layer = Attention(16, 2, True, False)
    for dynamic in (False, True):
        gradients = []
        for forward in (layer, torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=dynamic)):
            tokens = torch.randn(2, 9, 16, generator=generator(0, "tokens"))
            with torch.autocast("cpu", torch.bfloat16):
                loss = forward(tokens).float().square().sum()
            gradients += torch.autograd.grad(loss, layer.qkv.weight)
        torch.testing.assert_close(*gradients)
"""


SAMPLE = """
import torch
from isopix.generate.complete import Prompt, complete_images
from isopix.generate.results import SamplingConfig
from isopix.generate.mask import completion_mask
from isopix.generate.sample import sample_images
from tests.laws import cases

recipe = next(case for case in cases.autoregressive() if case.model.block.kind == "transformer")
model, images = cases.busy_model(recipe), cases.images(recipe, 2)
model.network.double()  # in which rounding decides no code
for count, precision in ((1, "fp32"), (3, "fp32"), (3, "bf16")):
    found = []
    for compiled in (False, True):
        sampling = SamplingConfig(compile=compiled, precision=precision)
        found += [sample_images(model, count, sampling=sampling, batch_size=count)]
        prompt = Prompt(images, completion_mask("rows:2", model.network.codec, len(images)), count)
        found += [complete_images(model, prompt._replace(sampling=sampling)).images]
    print(torch.equal(found[0], found[2]), torch.equal(found[1], found[3]))
counters = torch._dynamo.utils.counters
print(counters["stats"]["unique_graphs"], sum(counters["graph_break"].values()))
"""


linked = pytest.mark.skipif(
    " " in torch.__file__, reason="PyTorch's compiler cannot link from a path with a space"
)


def printed(program: str, *words: str) -> list[str]:
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


@linked
@pytest.mark.slow
def test_compiled_samples_are_the_plain_ones() -> None:
    *equal, graphs, breaks = printed(SAMPLE)
    assert equal == ["True"] * 6
    assert int(graphs) > 0
    assert int(breaks) == 0


@linked
@pytest.mark.integration
@pytest.mark.parametrize("objective", ["masked", pytest.param("autoregressive", marks=pytest.mark.slow)])
def test_compiled_steps_equal_plain_ones_up_to_rounding(objective: str) -> None:
    losses = [float(line) for line in printed(PROGRAM, objective)]
    assert losses[:3] == pytest.approx(losses[3:], rel=1e-5)


@pytest.mark.integration
def test_training_attention_in_bf16_is_the_same_compiled() -> None:
    """On this machine, and as on CPUs without and with the matrix units of AMX."""
    printed(ATTENTION)
