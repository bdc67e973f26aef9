"""A network without a head or an objective: features as ever, and one reason for everything else."""

import pytest
import torch

from isopix.generate.complete import reconstruct_images
from isopix.model.heads import NoHeadSpec
from isopix.objectives.base import ObjectiveSpec, PretrainModel
from isopix.objectives.objectives import Masked, NoObjective
from isopix.recipes import registry
from tests.unit.data.refusal import refusal

IMAGES = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def headless(objective: ObjectiveSpec) -> PretrainModel:
    recipe = registry.resolve("vit.tiny", assignments=["depth=1", "width=16", "rows=16", "cols=16"]).recipe
    recipe = recipe.updated(head=NoHeadSpec(), objective=objective)
    assert not recipe.predicts_codes
    return PretrainModel(recipe.build(recipe.model.codec.placeholder(recipe.grid)), objective)


def test_a_network_without_a_head_refuses_to_predict() -> None:
    model = headless(Masked())
    draw = torch.Generator().manual_seed(0)
    batch = model.make_batch(IMAGES, draw)
    for verb in (
        lambda: model(batch),
        lambda: model.network(IMAGES),
        lambda: reconstruct_images(model, IMAGES, generator=draw),
    ):
        assert "this network has no decoder" in refusal(verb)
    assert len(list(model.network.features(IMAGES))) == 2


def test_no_objective_masks_nothing_and_has_no_loss() -> None:
    model = headless(NoObjective())
    batch = model.make_batch(IMAGES, torch.Generator())
    assert batch.mask is None
    assert not batch.loss_mask.any()
    assert torch.equal(batch.inputs, IMAGES)
    assert "no pre-training objective" in refusal(lambda: model(batch))
    with pytest.raises(ValueError, match="this network has no decoder"):
        reconstruct_images(model, IMAGES, generator=torch.Generator())
