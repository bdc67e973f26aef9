"""Backbone: stem, masking, positions and blocks; all of a model that outlives pre-training."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Literal

from torch import nn

from isopix.core.types import Grid, Hidden, Images, Tokens
from isopix.model.attention import Attentive, Weights
from isopix.model.cache import Cache
from isopix.model.masking import whole

Stream = Literal["n", "h"]


class Backbone(nn.Module):
    """Images to states 0..L: what enters the first block, and what leaves each of the L blocks.

    `n` of a layer is its state after the *next* block's first norm (the last norm for l = L); the paper
    probes n.
    """

    def __init__(self, grid: Grid, parts: Sequence[nn.Module], blocks: Sequence[nn.Module], norm: nn.Module):
        """`parts` are stem, masking and positions, in this order."""
        super().__init__()
        self.grid = grid
        self.stem, self.masking, self.positions = parts
        self.blocks: Any = nn.ModuleList(blocks)  # of one union; torch's own type forgets their methods
        self.norm = norm

    @property
    def depth(self) -> int:
        return len(self.blocks)

    def enter(self, images: Images, hidden: Hidden | None = None) -> Tokens:
        """State 0."""
        return self.positions(self.masking(self.stem(images), hidden))

    def states(self, images: Images, hidden: Hidden | None = None) -> Iterator[Tokens]:
        """The L+1 states, one after another."""
        tokens = self.enter(images, hidden)
        yield tokens
        for block in self.blocks:
            tokens = block(tokens)
            yield tokens

    def features(
        self, images: Images, hidden: Hidden | None = None, *, stream: Stream = "n"
    ) -> Iterator[Tokens]:
        """Tokens of every layer 0..L as the probes read them: normed (`n`, iGPT section 2.4) or raw (`h`)."""
        for norm, state in zip(self._norms(), self.states(images, hidden), strict=True):
            yield norm(state) if stream == "n" else state

    @property
    def attends(self) -> bool:
        """Whether every block has attention weights to look at."""
        return all(isinstance(block, Attentive) for block in self.blocks)

    def attention(self, images: Images, hidden: Hidden | None = None) -> Iterator[Weights]:
        """The weights of every attention, first to last, one held at a time. Blocks must attend.

        Tokens that stand for no position (a class token) come first: N is then more than the grid's.
        """
        for block, state in zip(self.blocks, self.states(images, hidden), strict=False):  # the last: unread
            yield from block.weights(state)

    def some(self, layers: Sequence[int], images: Images, hidden: Hidden | None = None) -> list[Tokens]:
        """n of these layers alone; no block behind the last of them is run."""
        norms, states = self._norms(), self.states(images, hidden)
        found = {
            layer: norms[layer](state)
            for layer, state in enumerate(islice(states, max(layers) + 1))
            if layer in layers
        }
        return [found[layer] for layer in layers]

    def upto(self, layer: int) -> "Backbone":
        """The network cut behind its first `layer` blocks, sharing them: its last features are this
        layer's.
        """
        parts = [self.stem, self.masking, self.positions]
        return Backbone(self.grid, parts, list(self.blocks)[:layer], self._norms()[layer])

    def forward(self, images: Images, hidden: Hidden | None = None) -> Tokens:
        """n of the last layer: what the head reads."""
        tokens = self.enter(images, hidden)
        for block in self.blocks:
            tokens = block(tokens)
        return self.norm(tokens)

    def _norms(self) -> list[nn.Module]:
        """The norm that n of each layer 0..L is behind: the next block's first, the last one's own."""
        return [*(block.norm1 for block in self.blocks), self.norm]

    def caches(self) -> list[Cache]:
        """An empty cache for each block."""
        return [block.cache(self.grid.positions) for block in self.blocks]

    def follow(self, cells: Images, position: int) -> Tokens:
        """State 0 at one position of a shifted sequence, from the pixels `cells` of the position before
        it.
        """
        return self.positions(whole(self.stem(cells)), start=position)

    def step(self, tokens: Tokens, caches: Sequence[Cache]) -> Tokens:
        """n of the last layer at the next positions, from their state 0; a first stretch, then one at a
        time.
        """
        for block, cache in zip(self.blocks, caches, strict=True):
            tokens = block.step(tokens, cache)
        return self.norm(tokens)
