"""Models of 4 x 7 positions without a run: autoregressive, masked, and of other parts."""

from isopix.core.types import Images
from isopix.pretrained.model import PretrainedModel
from isopix.recipes.recipe import Recipe
from isopix.runs.load import LoadedRun
from isopix.runs.state import State
from tests.laws import cases

GPT = [case for case in cases.transformers() if case.data.cols == 7 and case.model.codec.kind == "palette"]
CAUSAL = [case for case in GPT if case.objective.causal][-1]
MASKED = [case for case in GPT if not case.objective.causal][-1]
CLASS_TOKEN = next(case for case in cases.masked() if case.model.class_token)


def model(recipe: Recipe, **options: object) -> PretrainedModel:
    return PretrainedModel(LoadedRun(recipe, cases.busy(recipe), State(step=7, data="these")), **options)


def images(of: PretrainedModel, count: int = 3) -> Images:
    """Pixels that the model's codes stand for, so that codes say as much as images."""
    codec = of.network.codec
    return codec.decode(codec.encode(cases.images(of.loaded.recipe, count)))
