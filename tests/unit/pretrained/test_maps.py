"""Attention and surprise of a loaded model, as maps over the positions of an image."""

import pytest
import torch

from isopix.pretrained.model import PretrainedModel
from isopix.recipes.recipe import Recipe
from tests.unit.pretrained.cases import CAUSAL, CLASS_TOKEN, images, model


def test_the_mean_surprise_of_pixels_is_the_loss_of_their_image(causal: PretrainedModel) -> None:
    given = images(causal)
    assert causal.surprise(given).mean((1, 2)).tolist() == pytest.approx(causal.nll(given).tolist(), rel=1e-5)


@pytest.mark.parametrize("case", [CAUSAL, CLASS_TOKEN])
def test_attention_is_that_of_the_softmax_without_the_class_token(case: Recipe) -> None:
    made = model(case)
    given, backbone = images(made, 1), made.network.backbone
    rows, cols = backbone.grid
    first, found = backbone.num_prefix_tokens, made.attention(given, (1, 2))
    assert found.shape[2:] == (rows, cols)
    with torch.no_grad():
        inputs = made.network.inputs_of(given)
        weights = [each[0, :, first + cols + 2, first:] for each in backbone.attention_weights(inputs)]
    expected = torch.stack([each / each.sum(-1, keepdim=True) for each in weights])
    assert torch.allclose(found.flatten(2), expected, atol=1e-6)
    assert found.flatten(2)[..., cols + 3 :].any() != case.objective.causal


def test_attention_is_of_one_image_and_of_its_positions(causal: PretrainedModel) -> None:
    for given, position in ((2, None), (1, (4, 0))):
        with pytest.raises(ValueError, match="one image at a position of 4 x 7"):
            causal.attention(images(causal, given), position)
