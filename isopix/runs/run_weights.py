"""The weights of a model in training as groups of tensors of a checkpoint, and back."""

from collections.abc import Mapping

from torch import Tensor

from isopix.finetuning.classifier import FineTuneModel
from isopix.model.network import Network
from isopix.runs.checkpoint_content import CLASSIFIER, MODEL
from isopix.storage.checkpoint import Checkpoint
from isopix.train.parallel import shard_like


def saved_weights(network: Network, model: FineTuneModel | None) -> dict[str, dict[str, Tensor]]:
    """Return the weights of a network, and of the class head if there is one, by group and name.

    Those of sharded weights are sharded.
    """
    return {
        group: {name: tensor.detach() for name, tensor in tensors.items()}
        for group, tensors in _groups(network, model).items()
    }


def load_into(network: Network, model: FineTuneModel | None, found: Checkpoint) -> None:
    """Copy the weights of a checkpoint of the same run into a network, and its class head if there is one."""
    for group, tensors in _groups(network, model).items():
        for name, tensor in tensors.items():
            tensor.copy_(shard_like(found.tensors[group][name], tensor))


def _groups(network: Network, model: FineTuneModel | None) -> dict[str, Mapping[str, Tensor]]:
    groups: dict[str, Mapping[str, Tensor]] = {MODEL: network.tensors()}
    return groups if model is None else {**groups, CLASSIFIER: model.head.state_dict()}
