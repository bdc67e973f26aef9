"""Fine-tuning: settings of the network that may differ from those of pre-training."""

from pathlib import Path

import torch

from isopix.recipes import registry
from isopix.runs.finetune import prepare_finetune
from isopix.runs.load import load_run
from isopix.runs.observer import RunObserver
from isopix.runs.pretrain import train_recipe

CPU = torch.device("cpu")


def test_dropout_may_differ_from_pre_training(tmp_path: Path) -> None:
    small = ["depth=1", "width=16", "steps=1", "batch_size=4", "evaluate_images=8", "num_test_images=8"]
    recipe = registry.resolve("igpt.digits", assignments=small).recipe
    train_recipe(recipe, tmp_path / "pre", device=CPU, observer=RunObserver())
    words = ["block.dropout=0.3", "embedding_dropout=0.1"]
    recipe, initial = prepare_finetune(str(tmp_path / "pre"), assignments=words)
    assert recipe.model.embedding_dropout == 0.1
    assert initial is not None
    network = initial.network
    assert (network.backbone.dropout.p, network.backbone.layers[0].dropout.p) == (0.1, 0.3)
    own = load_run(tmp_path / "pre", device=CPU).network.tensors()
    assert all(torch.equal(tensor, own[name]) for name, tensor in network.tensors().items())
