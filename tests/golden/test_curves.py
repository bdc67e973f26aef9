"""The first losses of each family of recipes, step by step: a change of any number in training shows here."""

from pathlib import Path

import pytest
import torch

from isopix.recipes import registry
from isopix.runs.pretrain import train_recipe
from isopix.runs.training import RunObserver
from isopix.storage import log

CURVES: dict[str, list[float]] = {
    "igpt.digits": [
        2.833214,
        2.769082,
        2.626196,
        2.485213,
        2.360240,
        2.25422,
        2.14329,
        2.107397,
        2.039772,
        2.115707,
        2.098561,
        2.00478,
        2.088618,
        2.129744,
        2.092867,
        2.066633,
        2.116432,
        2.09479,
        2.097004,
        2.084712,
    ],
    "igpt.digits_bert": [
        2.833214,
        2.763931,
        2.669482,
        2.47618,
        2.378067,
        2.285135,
        2.147746,
        2.082109,
        2.004511,
        2.080714,
        2.133173,
        1.935621,
        2.097773,
        2.107147,
        2.025353,
        2.021757,
        2.167862,
        2.216817,
        2.042318,
        2.185886,
    ],
    "isotropic.tiny-conv-fourier-1": [
        5.545177,
        5.4388,
        4.928471,
        4.404761,
        3.944886,
        3.525392,
        3.190802,
        2.931575,
        2.707675,
        2.557815,
        2.459388,
        2.239762,
        2.233069,
        2.172817,
        2.110047,
        2.079186,
        2.173368,
        2.184931,
        2.065506,
        2.168342,
    ],
    "isotropic.tiny-mixer-pix2vec-1": [
        5.545177,
        5.463468,
        5.163965,
        4.721664,
        4.225337,
        3.732575,
        3.305987,
        2.975122,
        2.714855,
        2.554274,
        2.455389,
        2.244244,
        2.238506,
        2.183941,
        2.121362,
        2.089267,
        2.188844,
        2.2238,
        2.092148,
        2.200654,
    ],
    "patchformer.tiny": [
        1.386295,
        1.385213,
        1.384058,
        1.383145,
        1.381453,
        1.380529,
        1.378741,
        1.377302,
        1.376671,
        1.375449,
        1.373785,
        1.371604,
        1.370381,
        1.369304,
        1.367774,
        1.365506,
        1.363228,
        1.363637,
        1.360224,
        1.360141,
    ],
    "vit.tiny": [
        6.238325,
        6.219676,
        6.170624,
        6.111976,
        6.055964,
        5.991737,
        5.930634,
        5.877572,
        5.823161,
        5.775391,
        5.730464,
        5.690147,
        5.65671,
        5.628671,
        5.609398,
        5.59082,
        5.580478,
        5.570354,
        5.567112,
        5.563011,
    ],
}
DIGITS = ["data.source=digits", "data.rows=8", "data.cols=8"]
ENLARGED = ["data.source=digits", "data.rows=32", "data.cols=32", "width=32"]
SMALLER = {
    "patchformer.tiny": [*ENLARGED, "stem.channels=8", "head.channels=16"],
    "vit.tiny": ENLARGED,
}


@pytest.mark.parametrize("name", CURVES)
def test_twenty_steps_give_the_same_losses_as_ever(name: str, tmp_path: Path) -> None:
    words = ["steps=20", "batch_size=32", "log_every=1", "evaluate_images=0", "num_test_images=0"]
    recipe = registry.resolve(name, assignments=[*words, *SMALLER.get(name, DIGITS)]).recipe
    train_recipe(recipe, tmp_path / "run", device=torch.device("cpu"), observer=RunObserver())
    losses = [
        each["loss_nats"] for each in log.read_log(tmp_path / "run" / "log.jsonl") if each["kind"] == "train"
    ]
    assert losses == pytest.approx(CURVES[name], rel=3e-6)
