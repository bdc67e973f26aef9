"""Backbone: stem, masking, positions and blocks; all of a model that outlives pre-training."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isopix.core.types import Grid, Images, Mask, PositionIndices, SelectedTokens, Tokens
from isopix.model.attention import Attentive, Span, Weights
from isopix.model.kv_cache import Cache
from isopix.model.masking import whole
from isopix.model.token_dropping import alike, strips

Stream = Literal["n", "h"]
States = Float[Tensor, "B _ D"]  # of all positions or of some, with a class token before them or without


class Backbone(nn.Module):
    """Images to states 0..L: what enters the first block, and what leaves each of the L blocks.

    `n` of a layer is its state after the *next* block's first norm (the last norm for l = L); the paper
    probes n. A class token, if there is one, stands before the positions in every state: what attention has
    pooled of them.
    """

    def __init__(
        self,
        grid: Grid,
        parts: Sequence[nn.Module],
        blocks: Sequence[nn.Module],
        norm: nn.Module,
        token: nn.Parameter | None = None,
        place_norm: nn.Module | None = None,
    ):
        """`parts` are stem, masking and positions, in this order; `token` is the class token [D], and
        `place_norm` what the vectors of places go through that are decoded without ever having been there.
        """
        super().__init__()
        self.grid = grid
        self.stem: Any = parts[0]  # torch's own type forgets its methods, and those of the others
        self.masking = parts[1]
        self.positions: Any = parts[2]
        self.blocks: Any = nn.ModuleList(blocks)  # of one union
        self.norm, self.token, self.place_norm = norm, token, place_norm

    @property
    def depth(self) -> int:
        return len(self.blocks)

    @property
    def leading(self) -> int:
        """How many tokens stand before the positions, for none of them."""
        return int(self.token is not None)

    def enter(self, images: Images, hidden: Mask | None = None) -> States:
        """State 0."""
        return next(self.states(images, hidden))

    def states(self, images: Images, hidden: Mask | None = None) -> Iterator[States]:
        """The L+1 states, one after another."""
        if hidden is None or not self.masking.drops:
            tokens = self.positions(self.masking(self.stem(images), hidden))
            yield from self._through(self._led(tokens))
            return
        runs = alike(hidden)
        order = torch.cat([run.images for run in runs]).argsort()
        each = [self._without(images[run.images], run.places) for run in runs]
        for states in zip(*each, strict=True):
            yield torch.cat(states)[order]

    def features(
        self, images: Images, hidden: Mask | None = None, *, stream: Stream = "n"
    ) -> Iterator[States]:
        """Tokens of every layer 0..L as the probes read them: normed (`n`, iGPT section 2.4) or raw (`h`)."""
        for norm, state in zip(self._norms(), self.states(images, hidden), strict=True):
            yield norm(state) if stream == "n" else state

    @property
    def attends(self) -> bool:
        """Whether every block has attention weights to look at."""
        return all(isinstance(block, Attentive) for block in self.blocks)

    def attention(self, images: Images, hidden: Mask | None = None) -> Iterator[Weights]:
        """The weights of every attention, first to last, one held at a time. Blocks must attend.

        Tokens that stand for no position (a class token) come first: N is then more than the grid's.
        """
        for block, state in zip(self.blocks, self.states(images, hidden), strict=False):  # the last: unread
            yield from block.weights(state)

    def spans(self) -> Iterator[tuple[int, Span]]:
        """The block, from 1, of every attention, first to last, and among which positions it looks."""
        for number, block in enumerate(self.blocks, start=1):
            for span in block.spans(self.grid):
                yield number, span

    def some(self, layers: Sequence[int], images: Images, hidden: Mask | None = None) -> list[States]:
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
        return Backbone(self.grid, parts, list(self.blocks)[:layer], self._norms()[layer], self.token)

    def forward(self, images: Images, hidden: Mask | None = None) -> Tokens:
        """What the head reads of every position."""
        for tokens in self.states(images, hidden):  # noqa: B007
            pass
        return self.read(self.norm(tokens), hidden)

    @property
    def selects(self) -> bool:
        """Whether its last block can answer at some places without doing so everywhere."""
        return not self.masking.drops and self.depth > 0 and getattr(self.blocks[-1], "selects", False)

    def asked(self, images: Images, hidden: Mask | None, places: PositionIndices) -> SelectedTokens:
        """What the head reads at these places alone [B M D], of a backbone that `selects`: `forward`'s, at
        less cost.
        """
        before = next(islice(self.states(images, hidden), self.depth - 1, None))
        return self.norm(self.blocks[-1].asked(before, places + self.leading))

    def read(self, tokens: States, hidden: Mask | None) -> Tokens:
        """What the head reads, of n of the last layer: n itself, but norm(u) + norm'(place) at positions that
        have been dropped, u being the pooled vector (PatchFormer section 2.1), norm' perhaps the identity.

        The stream grows to a hundred times the length of a place's vector, so that behind one norm of their
        sum the place is lost, and the same is drawn everywhere.
        """
        tokens = self.placed(tokens)
        if hidden is None or self.place_norm is None:
            return tokens
        places = self.place_norm(self.positions(torch.zeros_like(tokens[:1])))
        return torch.where(hidden.any(-1, keepdim=True), tokens + places, tokens)

    def placed(self, tokens: States) -> States:
        """The tokens of positions alone."""
        return tokens[:, self.leading :]

    def _led(self, tokens: States) -> States:
        """The tokens, the class token before them."""
        if self.token is None:
            return tokens
        return torch.cat([self.token.to(tokens.dtype).expand(len(tokens), 1, -1), tokens], 1)

    def _through(self, tokens: States) -> Iterator[States]:
        yield tokens
        for block in self.blocks:
            tokens = block(tokens)
            yield tokens

    def _without(self, images: Images, places: PositionIndices) -> Iterator[States]:
        """The states of images of which these places alone are there, as many of each."""
        tokens = whole(self.stem(strips(images, places, self.grid)))
        for state in self._through(self._led(self.positions.at(tokens, places))):
            yield self._scattered(state, places)

    def _scattered(self, state: States, places: PositionIndices) -> States:
        """Every position again: at the others stands the pooled vector: the class token, or without one the
        mean.
        """
        seen = self.placed(state)
        pooled = seen.sum(1) / max(1, seen.shape[1]) if self.token is None else state[:, 0]
        everywhere = pooled[:, None].expand(-1, self.grid.positions, -1).to(seen.dtype)
        full = everywhere.scatter(1, places[..., None].expand_as(seen), seen)
        return full if self.token is None else torch.cat([state[:, :1], full], 1)

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
