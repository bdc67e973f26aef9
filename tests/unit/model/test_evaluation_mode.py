"""A module is in evaluation mode, and afterwards in the modes that it had."""

import pytest
from torch import nn

from isopix.model.network import evaluation_mode


def compute(module: nn.Module) -> None:
    with evaluation_mode(module):
        assert not any(each.training for each in module.modules())
        raise RuntimeError


def test_the_mode_of_each_submodule_is_restored_also_after_an_error() -> None:
    module = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    module[1].eval()
    before = [each.training for each in module.modules()]
    with pytest.raises(RuntimeError):
        compute(module)
    assert [each.training for each in module.modules()] == before == [True, True, False, False]
