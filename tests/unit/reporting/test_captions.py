"""Captions name the queries and the images of a figure."""

import pytest

from isopix.reporting.captions import caption

FACTS = {"step": 7, "causal": False, "data": "photos", "split": "test"}


@pytest.mark.parametrize(
    ("positions", "queries"),
    [
        ([[1, 2]], "the marked position"),
        ([[1, 2], [0, 0]], "the marked positions"),
        (["class"], "the class token (framed)"),
        (["class", [1, 2]], "the class token (framed) and the marked position"),
    ],
)
def test_attention_captions_name_the_queries(positions: list, queries: str) -> None:
    numbers = FACTS | {"queries": [{"position": position} for position in positions]}
    assert f"Attention from {queries} of one image of photos (test), by head" in caption(
        "attention_maps", numbers
    )
    assert f"Attention rollout from {queries} of one image of photos (test):" in caption(
        "attention_rollout", numbers
    )


def test_axial_attention_is_compared_with_its_row_or_column() -> None:
    heads = [{"relative_to_uniform": 0.5}, {"relative_to_uniform": 0.75}]
    numbers = FACTS | {"images": 4, "renormalized": True, "layers": [{"layer": "1 rows", "heads": heads}]}
    text = caption("attention_distance", numbers)
    assert "uniform attention along the row or column; heads reach 50% to 75% of it." in text
