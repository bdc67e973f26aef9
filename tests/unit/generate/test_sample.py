import pytest
import torch

from isopix.core.random import generator
from isopix.generate.sample import Sampling

LOGITS = torch.tensor([[[0.0, 2.0, 1.0, -1.0]], [[3.0, 3.0, 0.0, 0.0]]])


def test_no_cut_is_the_models_own_distribution() -> None:
    torch.testing.assert_close(Sampling().probabilities(LOGITS), LOGITS.softmax(-1))


def test_temperature_divides_logits() -> None:
    torch.testing.assert_close(Sampling(temperature=0.5).probabilities(LOGITS), (LOGITS * 2).softmax(-1))


def test_top_k_keeps_the_likeliest_and_renormalises() -> None:
    found = Sampling(top_k=2).probabilities(LOGITS)[0, 0]
    assert (found > 0).tolist() == [False, True, True, False]
    torch.testing.assert_close(found[1:3], LOGITS[0, 0, 1:3].softmax(-1))


def test_top_k_beyond_the_palette_cuts_nothing() -> None:
    torch.testing.assert_close(Sampling(top_k=99).probabilities(LOGITS), LOGITS.softmax(-1))


@pytest.mark.parametrize(("p", "kept"), [(0.1, 1), (0.64, 1), (0.66, 2), (0.9, 3), (1.0, 4)])
def test_top_p_keeps_the_fewest_that_reach_p(p: float, kept: int) -> None:
    """The likeliest have 0.644, 0.237, 0.087 and 0.032."""
    assert int((Sampling(top_p=p).probabilities(LOGITS)[0] > 0).sum()) == kept


def test_draws_follow_the_probabilities() -> None:
    many = LOGITS[:1].expand(20_000, 1, 4)
    drawn = Sampling().draw(many, generator(0, "test")).flatten()
    shares = torch.bincount(drawn, minlength=4) / len(drawn)
    torch.testing.assert_close(shares, LOGITS[0, 0].softmax(-1), atol=0.015, rtol=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"temperature": 0.0},
            "temperature 0.0 must be a number greater than 0; top_k=1 takes the likeliest",
        ),
        ({"temperature": float("inf")}, "temperature inf must be a number greater than 0"),
        ({"temperature": float("nan")}, "temperature nan must be a number greater than 0"),
        ({"top_k": 0}, "top_k 0 must be at least 1"),
        ({"top_p": 0.0}, r"top_p 0.0 must lie in \(0, 1\]"),
        ({"top_p": 1.5}, r"top_p 1.5 must lie in \(0, 1\]"),
    ],
)
def test_impossible_sampling_is_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(**wrong)
