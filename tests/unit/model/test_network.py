import pytest
import torch

from tests.laws import cases

RECIPE = cases.CASES[0]


def test_every_tensor_is_saved_once_and_loads_back() -> None:
    net, other = cases.busy(RECIPE), cases.network(RECIPE)
    other.load({name: value.clone() for name, value in net.tensors().items()})
    assert len({value.data_ptr() for value in net.tensors().values()}) == len(net.tensors())
    x = cases.images(RECIPE)
    assert torch.equal(other(other.inputs_of(x)), net(net.inputs_of(x)))


def test_a_network_without_memory_takes_the_tensors_themselves() -> None:
    net = cases.busy(RECIPE)
    tensors = net.tensors()
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


def test_weights_of_another_palette_are_refused() -> None:
    tensors = cases.network(RECIPE).tensors()
    tensors["codec.color_bits"] = tensors["codec.color_bits"] + 1
    with pytest.raises(
        ValueError, match=r"tensor 'codec.color_bits' of this model's codec differs from the checkpoint's"
    ):
        cases.network(RECIPE).load(tensors)


def test_a_missing_tensor_is_named() -> None:
    tensors = cases.network(RECIPE).tensors()
    del tensors["backbone.positions.table"]
    with pytest.raises(ValueError, match=r"tensor 'backbone.positions.table' is missing from the checkpoint"):
        cases.network(RECIPE).load(tensors)


def test_an_unexpected_tensor_is_named() -> None:
    tensors = {**cases.network(RECIPE).tensors(), "extra": torch.zeros(1)}
    with pytest.raises(ValueError, match="tensor 'extra' is not in this model"):
        cases.network(RECIPE).load(tensors)


def test_a_misshapen_tensor_is_named_with_both_shapes() -> None:
    tensors = cases.network(RECIPE).tensors()
    tensors["backbone.norm.weight"] = torch.zeros(3)
    with pytest.raises(
        ValueError, match=r"'backbone.norm.weight' has shape \(3,\) in the checkpoint and \(16,\)"
    ):
        cases.network(RECIPE).load(tensors)
