"""The noise of denoising: how much of it, and where."""

import torch
from scipy.stats import kstest

from isopix.codecs.patches import FullPatchSpec
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.objectives.denoising import Denoising


def test_noise_is_uniform_in_standard_deviations_of_the_image() -> None:
    images = torch.randint(120, 137, (2000, 3, 16, 16), dtype=torch.uint8, generator=generator(0, "images"))
    images[:1000] = (images[:1000] - 120) * 2 + 112  # of twice the contrast
    codec = FullPatchSpec(patch_size=4).build(Grid(4, 4))
    batch = Denoising().make_batch(images, codec, generator(0, "noise"))
    noise = (batch.inputs.double() - images).std((1, 2, 3)) / images.double().std((1, 2, 3))
    assert kstest(noise.numpy() / 2**0.5, "uniform").pvalue > 0.01
    assert codec.decode(batch.targets).equal(images)
    assert batch.loss_mask.all()
