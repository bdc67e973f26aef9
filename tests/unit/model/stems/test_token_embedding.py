"""Pix2vec: one table of 256 vectors for each channel, summed."""

import torch

from isopix.codecs.patches import Bytes
from isopix.core.random import generator
from isopix.core.types import Grid
from isopix.model.masking import ZeroMasking, sum_components
from isopix.model.stems.pixels import TokenEmbeddingSpec

GRID = Grid(3, 4)


def test_pix2vec_sums_a_table_for_each_channel() -> None:
    codec = Bytes(GRID)
    stem = TokenEmbeddingSpec().build(codec, 5)
    images = torch.randint(256, (2, 3, *GRID), dtype=torch.uint8, generator=generator(0, "images"))
    assert [tuple(table.weight.shape) for table in stem.tables] == [(256, 5)] * 3
    red, green, blue = images[1, :, 2, 1].tolist()
    expected = stem.tables[0].weight[red] + stem.tables[1].weight[green] + stem.tables[2].weight[blue]
    torch.testing.assert_close(sum_components(stem(codec.encode(images)))[1, 9], expected)


def test_a_masked_channel_leaves_the_embeddings_of_the_others() -> None:
    codec = Bytes(GRID)
    stem = TokenEmbeddingSpec().build(codec, 5)
    images = torch.randint(256, (1, 3, *GRID), dtype=torch.uint8, generator=generator(0, "images"))
    mask = torch.zeros(1, 12, 3, dtype=torch.bool)
    mask[0, 9, 1] = mask[0, 4] = True
    tokens, components = ZeroMasking()(stem(codec.encode(images)), mask), stem(codec.encode(images))
    torch.testing.assert_close(tokens[0, 9], components[0][0, 9] + components[2][0, 9])
    assert not tokens[0, 4].any()
    torch.testing.assert_close(tokens[0, 5], sum_components(components)[0, 5])
