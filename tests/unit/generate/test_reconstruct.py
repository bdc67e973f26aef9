"""Reconstruction names what is likeliest, whatever the head, and draws it into the picture."""

import pytest
import torch

from isopix.codecs import GreyThumbnail, WholePatch
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.data.dataset import Data
from isopix.generate.reconstruct import Reconstruction, reconstruct
from isopix.model.blocks import TransformerSpec
from isopix.model.heads import HeadSpec, LinearHeadSpec, RegressionHeadSpec
from isopix.model.masking import MaskTokenMaskingSpec
from isopix.model.norms import LayerNormSpec
from isopix.model.spec import ModelSpec
from isopix.model.stems import PatchEmbedSpec
from isopix.objectives.base import PretrainModel
from isopix.objectives.masked import Masked
from isopix.objectives.masks import BernoulliMask
from isopix.recipes import tiny
from isopix.recipes.recipe import Recipe

PATCH, SIDE = 8, 32


def network(head: HeadSpec, codec: WholePatch | GreyThumbnail) -> PretrainModel:
    recipe = Recipe(
        name="reconstruct",
        model=ModelSpec(
            codec=codec,
            stem=PatchEmbedSpec(),
            block=TransformerSpec(heads=2, norm=LayerNormSpec()),
            depth=1,
            width=64,
            head=head,
            init="vit",
        ),
        data=Data(rows=SIDE, cols=SIDE),
        objective=Masked(mask=BernoulliMask(ratio=0.5), corruption=MaskTokenMaskingSpec()),
    )
    return PretrainModel(recipe.build(recipe.model.codec.build(recipe.grid)), recipe.objective)


def picture() -> Images:
    """A smooth ramp in each channel, and a square in it."""
    ramp = torch.linspace(0, 255, SIDE)
    image = torch.stack(
        [ramp.expand(SIDE, SIDE), ramp[:, None].expand(SIDE, SIDE), torch.full((SIDE, SIDE), 90.0)]
    )
    image[:, 5:12, 9:20] = torch.tensor([250.0, 20.0, 200.0])[:, None, None]
    return image.round().to(torch.uint8)[None]


def overfitted(net: PretrainModel, steps: int = 250) -> PretrainModel:
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    for step in range(steps):
        optimizer.zero_grad()
        net(net.make_batch(picture().expand(8, -1, -1, -1), generator(0, "mask", step))).backward()
        optimizer.step()
    return net


def error(found: Reconstruction, images: Images) -> float:
    """The root mean squared error of what was hidden, in levels."""
    rows = found.hidden[0, :, 0].view(SIDE // PATCH, SIDE // PATCH)
    where = rows.repeat_interleave(PATCH, 0).repeat_interleave(PATCH, 1).expand(3, -1, -1)
    return float((found.answer[0].float() - images[0].float())[where].square().mean().sqrt())


def test_a_regression_that_has_learnt_one_image_gives_it_back() -> None:
    net = network(RegressionHeadSpec(), WholePatch(patch=PATCH))
    before = reconstruct(net, picture(), generator=generator(0, "hide"))
    after = reconstruct(overfitted(net), picture(), generator=generator(0, "hide"))
    assert error(before, picture()) > 60  # grey everywhere
    assert error(after, picture()) < 6
    assert torch.equal(after.original, picture())
    assert torch.equal(after.target, picture())
    assert not torch.equal(after.answer, picture())


@pytest.mark.parametrize("head", [LinearHeadSpec(), RegressionHeadSpec()], ids=["linear", "regression"])
def test_what_is_not_hidden_stays_and_what_is_becomes_the_likeliest_code(head: HeadSpec) -> None:
    net = network(head, GreyThumbnail(patch=PATCH))
    torch.nn.init.normal_(net.network.head.project.weight, generator=generator(0, "weights"))
    found = reconstruct(net, picture(), generator=generator(0, "hide"))
    hidden = found.hidden.clone()
    named = net.network.predict(picture(), hidden)
    assert torch.equal(
        net.network.codec.encode(found.answer),
        torch.where(hidden, named, net.network.codec.encode(picture())),
    )
    right = (named == net.network.codec.encode(picture()))[hidden.expand_as(named)]
    assert found.accuracy == pytest.approx(right.double().mean().item())


def test_hidden_patches_alone_are_drawn_into_the_photograph_as_they_were_named_and_as_they_are() -> None:
    net = network(LinearHeadSpec(), GreyThumbnail(patch=PATCH))
    torch.nn.init.normal_(net.network.head.project.weight, generator=generator(0, "weights"))
    found = reconstruct(net, picture(), generator=generator(0, "hide"))
    assert torch.equal(found.original, picture())
    drawn = {
        "answer": net.network.codec.decode(net.network.predict(picture(), found.hidden.clone())),
        "target": net.network.codec.decode(net.network.codec.encode(picture())),
    }
    for name, greys in drawn.items():
        for place in range((SIDE // PATCH) ** 2):
            top, left = PATCH * (place // (SIDE // PATCH)), PATCH * (place % (SIDE // PATCH))
            patch = slice(0, 1), slice(None), slice(top, top + PATCH), slice(left, left + PATCH)
            expected = greys if found.hidden[0, place, 0] else picture()
            assert torch.equal(getattr(found, name)[patch], expected[patch])
    assert 0 < found.hidden.sum() < found.hidden.numel()


def test_a_network_over_a_palette_is_shown_its_colours_and_no_others() -> None:
    recipe = tiny.digits_bert().updated(
        data=Data(rows=8, cols=8),
        width=16,
        depth=1,
    )
    net = PretrainModel(recipe.build(recipe.model.codec.placeholder(recipe.grid)), recipe.objective)
    images = picture()[..., :8, 4:12]
    found = reconstruct(net, images, generator=generator(0, "hide"))
    quantised = net.network.codec.decode(net.network.codec.encode(images))
    assert not torch.equal(quantised, images)
    assert torch.equal(found.original, quantised)
    assert torch.equal(found.target, quantised)
