from collections.abc import Callable

import pytest
import torch

from isopix.model.masking import ZeroMasking
from tests.laws import cases

RECIPE = cases.CASES[0]


def test_a_network_without_memory_takes_the_tensors_themselves() -> None:
    net = cases.busy(RECIPE)
    tensors = net.tensors()
    assert len({value.data_ptr() for value in tensors.values()}) == len(tensors), "each is saved once"
    codec = cases.codec(RECIPE)
    with torch.device("meta"):
        other = RECIPE.assemble(codec)
    other.load(tensors)
    assert {value.data_ptr() for value in other.tensors().values()} >= {
        value.data_ptr() for name, value in tensors.items() if name != "codec.color_bits"
    }
    x = cases.images(RECIPE)
    assert torch.equal(other(other.inputs_of(x)), net(net.inputs_of(x)))
    assert all(parameter.requires_grad for parameter in other.parameters())


WRONG = {
    "tensor 'codec.color_bits' of this model's codec differs": lambda own: own["codec.color_bits"].add_(1),
    "tensor 'backbone.positions.table' is missing": lambda own: own.pop("backbone.positions.table"),
    "tensor 'extra' is not in this model": lambda own: own.update(extra=torch.zeros(1)),
    "'backbone.norm.weight' has shape": lambda own: own.update({"backbone.norm.weight": torch.zeros(3)}),
}


@pytest.mark.parametrize(("message", "change"), WRONG.items(), ids=list(WRONG))
def test_a_tensor_that_does_not_fit_is_named(
    message: str, change: Callable[[dict[str, torch.Tensor]], object]
) -> None:
    tensors = {name: value.clone() for name, value in cases.network(RECIPE).tensors().items()}
    change(tensors)
    with pytest.raises(ValueError, match=message):
        cases.network(RECIPE).load(tensors)


def test_a_view_of_a_backbone_drops_nothing_in_evaluation_and_does_in_training() -> None:
    network = cases.busy(RECIPE.updated(embedding_dropout=0.5))
    backbone, x = network.backbone, network.inputs_of(cases.images(RECIPE))
    for training in (False, True):
        network.train(training)
        for other in (backbone.truncated(1), backbone.with_masking(ZeroMasking())):
            assert other.training == training
            assert torch.equal(other.embed(x), other.embed(x)) != training
