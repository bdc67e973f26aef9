"""Captions say what is looked from and at, of which images."""

import pytest

from isopix.report.captions import caption

FACTS = {"step": 7, "causal": False, "data": "photos", "split": "test"}


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([[1, 2]], "the marked position"),
        ([[1, 2], [0, 0]], "the marked positions"),
        (["class"], "the class token (framed)"),
        (["class", [1, 2]], "the class token (framed) and the marked position"),
    ],
)
def test_it_is_said_what_is_looked_from(places: list, words: str) -> None:
    numbers = FACTS | {"queries": [{"position": place} for place in places]}
    maps = caption("attention_maps", numbers)
    assert f"Attention from {words} of an image of photos (test), of every head" in maps
    assert f"what of an image of photos (test) reaches {words};" in caption("attention_rollout", numbers)


def test_axial_attention_is_compared_with_what_it_reaches() -> None:
    heads = [{"relative_to_uniform": 0.5}, {"relative_to_uniform": 0.75}]
    numbers = FACTS | {"images": 4, "renormalized": True, "layers": [{"layer": "1 rows", "heads": heads}]}
    told = caption("attention_distance", numbers)
    assert "everywhere alike (along its row, or its column), of which heads reach 50% to 75%" in told
