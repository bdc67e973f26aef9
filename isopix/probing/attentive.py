"""Attentive probe: a learned query gathers the positions of a layer, which a linear classifier reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from isopix.core.choices import Count, Pool, Range
from isopix.core.random import generator
from isopix.core.registry import register
from isopix.probing.minibatch import BatchReader, Classifiers, DescendingRates
from isopix.probing.probe import FittedProbe, ProbeProblem
from isopix.probing.splits import Features


@dataclass(frozen=True)
class AttentiveClassifiers(Classifiers):
    """logits = sum over heads h of W_h sum over positions n of softmax_n(q_h x_n) x_n, plus b."""

    query: Float[Tensor, "F R H D"]
    matrix: Float[Tensor, "F R H D K"]
    intercepts: Float[Tensor, "F R K"]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.query, self.matrix, self.intercepts

    def logits(self, x: Features) -> Float[Tensor, "F B R K"]:
        tokens = rearrange(x, "f b (n d) -> f b n d", d=self.query.shape[-1])
        scores = torch.einsum("f b n d, f r h d -> f b r h n", tokens, self.query)
        gathered = torch.einsum("f b r h n, f b n d -> f b r h d", scores.softmax(-1), tokens)
        logits = torch.einsum("f b r h d, f r h d k -> f b r k", gathered, self.matrix)
        return logits + self.intercepts[:, None]

    def take(self, selected: Int[Tensor, " F"]) -> "AttentiveClassifiers":
        layers = torch.arange(len(selected))
        chosen = (each[layers, selected.to(each.device)][:, None] for each in self.tensors)
        return AttentiveClassifiers(*chosen)


@register("attentive", "attentive probe (AdamW)")
class AttentiveProbe(DescendingRates):
    """Cross-attention from a learned query to the positions of a layer, then logistic regression, as AIM
    (El-Nouby et al. 2024) and V-JEPA (Bardes et al. 2024) probe; by AdamW with cosine decay.

    The projections of keys and values are part of q and W (`AttentiveClassifiers`), as nothing lies in
    between. W starts at zero. Features are read from disk a batch at a time, and a layer is fitted alone; raw
    pixels are one position.
    """

    pool: ClassVar[Pool | None] = "flatten"

    heads: Count = 4
    """Heads of the query, each with weights of its own over the positions."""
    iterations: Count = 1000
    """Updates of the weights."""
    weight_decay: Annotated[float, Range(low=0)] = 0.1
    """Decay of the weights per update, times the learning rate."""
    lr_grid: tuple[float, ...] = (0.1, 0.03, 0.01, 0.003, 0.001)
    """Learning rates to try, in this order."""

    def fit_layers(self, problem: ProbeProblem) -> Iterator[FittedProbe]:
        return map(self._fit, problem.parts(1))

    def train(self, images: BatchReader) -> tuple[Classifiers, list[int]]:
        found = [self._train(images, lr).tensors for lr in self.lr_grid]
        joined = (torch.cat(each, 1) for each in zip(*found, strict=True))
        return AttentiveClassifiers(*joined), [self.iterations] * len(found[0][0])

    def _train(self, images: BatchReader, lr: float) -> AttentiveClassifiers:
        problem = images.problem
        layers, _, width = problem.splits.train.features.shape
        size, classes = (layers, 1, self.heads, width // problem.splits.positions), len(problem.classes)
        query = 0.02 * torch.randn(size, generator=generator(problem.seed, "probe.query"))
        shapes = ((*size, classes), (layers, 1, classes))
        starts = [query, *(torch.zeros(shape) for shape in shapes)]
        tensors = [each.to(problem.device).requires_grad_() for each in starts]
        weights = AttentiveClassifiers(*tensors)
        optimizer = torch.optim.AdamW(tensors, lr, weight_decay=self.weight_decay)
        for step, (x, targets) in enumerate(images.shuffled(self.batch_size, self.iterations)):
            optimizer.param_groups[0]["lr"] = lr * self.lr_factor(step)
            log_probabilities = weights.logits(x).log_softmax(-1)
            loss = -log_probabilities[:, torch.arange(len(targets)), 0, targets].mean(1).sum()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
        return AttentiveClassifiers(*(each.detach() for each in tensors))
