"""The tables name each part of a network once; layouts are those that loops over the elements make."""

import pytest
import torch

from isopix.interop.name_tables import (
    IMAGEGPT,
    OPENAI_START,
    WeightMapping,
    expand_layers,
    heads_to_columns,
    heads_to_rows,
    openai_table,
    transposed,
    with_start_token,
)
from tests.unit.interop.models import network


def numbers(*shape: int) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel()).view(shape).float()


@pytest.mark.parametrize(
    "table", [IMAGEGPT, (*openai_table(2), OPENAI_START)], ids=["hugging face", "openai"]
)
def test_each_parameter_of_a_network_has_one_mapping(table: tuple[WeightMapping, ...]) -> None:
    named = [name for row in expand_layers(table, 2) for name in row.target]
    assert sorted(named) == sorted(name for name in network().tensors() if not name.startswith("codec."))
    theirs = [name for row in expand_layers(table, 2) for name in row.source]
    assert len(set(theirs)) == len(theirs)


def test_a_mapping_of_a_layer_is_repeated_for_each_layer() -> None:
    assert [
        row.source for row in expand_layers([transposed("h.{}.w", "b.{}.w"), transposed("x", "y")], 2)
    ] == [
        ("h.0.w",),
        ("h.1.w",),
        ("x",),
    ]


def test_projections_into_heads_are_stacked() -> None:
    query, key = numbers(2, 3, 4), -numbers(2, 3, 4)
    (ours,) = heads_to_rows(("q", "k"), "qk", 2).to_target((query, key))
    assert ours.shape == (12, 4)
    for head, unit in ((0, 0), (0, 2), (1, 1)):
        assert torch.equal(ours[3 * head + unit], query[head, unit])
        assert torch.equal(ours[6 + 3 * head + unit], key[head, unit])


def test_the_projection_out_of_heads_is_flattened() -> None:
    theirs = numbers(2, 3, 4)
    (ours,) = heads_to_columns("o", "out", 2).to_target((theirs,))
    assert all(ours[d, 3 * h + e] == theirs[h, e, d] for h in range(2) for e in range(3) for d in range(4))


def test_the_start_token_is_the_last_row() -> None:
    table, start = with_start_token("wte", "table", "start").to_target((numbers(5, 2),))
    assert torch.equal(table, numbers(5, 2)[:4])
    assert torch.equal(start, numbers(5, 2)[4])
