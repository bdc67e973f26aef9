"""A model of each kind, and tiny runs."""

import pytest

from isopix.pretrained.model import PretrainedModel
from tests.unit.pretrained.cases import CAUSAL, MASKED, model


@pytest.fixture(params=[CAUSAL, MASKED], ids=["autoregressive", "masked"])
def pretrained(request: pytest.FixtureRequest) -> PretrainedModel:
    return model(request.param)


@pytest.fixture
def causal() -> PretrainedModel:
    return model(CAUSAL)


@pytest.fixture
def masked() -> PretrainedModel:
    return model(MASKED)
