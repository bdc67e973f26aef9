"""Network: codec, backbone, head and objective as one module; what is trained, and what a checkpoint
holds.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isopix.codecs.base import Codec
from isopix.core.types import Codes, Images, Logits, Mask, PositionIndices, Tokens
from isopix.model.backbone import Backbone
from isopix.model.likelihood import Decoder
from isopix.objectives.base import Loss, ObjectiveSpec, Problem, nll_by_image


class Network(nn.Module):
    """Images to a problem to a loss; `logits` for looking at answers."""

    def __init__(self, codec: Codec, backbone: Backbone, head: Decoder, objective: ObjectiveSpec):
        super().__init__()
        self.codec, self.backbone, self.head, self.objective = codec, backbone, head, objective

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def prepare(self, images: Images, generator: torch.Generator) -> Problem:
        """The objective's problem for this batch."""
        return self.objective.prepare(images, self.codec, generator)

    def forward(self, problem: Problem) -> Loss:
        """What training makes small: mean nats per graded code; before training exactly ln K, or of a
        regression half the mean square of the answers.
        """
        tokens, places = self._answer(problem)
        return self.objective.loss(tokens, problem, self.head, places)

    def nats(self, problem: Problem) -> Loss:
        """Mean nats per graded code, of hard labels whatever the training's are."""
        tokens, places = self._answer(problem)
        return self.objective.nats(tokens, problem, self.head, places)

    def nll(self, problem: Problem) -> Float[Tensor, " B"]:
        """Mean nats per graded code of each image alone; their mean is `nats`."""
        return nll_by_image(self.backbone(problem.images, problem.hidden), problem, self.head)

    def logits(self, images: Images, hidden: Mask | None = None) -> Logits:
        """Logits [B N Q K] of every position. Raises ValueError for a head that gives none."""
        return self.head.logits(self.backbone(images, hidden))

    def likeliest(self, images: Images, hidden: Mask | None = None) -> Codes:
        """The likeliest codes of every position."""
        return self.head.likeliest(self.backbone(images, hidden))

    def _answer(self, problem: Problem) -> tuple[Tokens, PositionIndices | None]:
        """What the head reads, at the places that it was asked for or everywhere."""
        places = self.objective.places(problem) if self.backbone.selects else None
        if places is None:
            return self.backbone(problem.images, problem.hidden), None
        return self.backbone.asked(problem.images, problem.hidden, places), places

    def tensors(self) -> dict[str, Tensor]:
        """Weights and saved buffers by name, each tensor once (a stem may share the codec)."""
        unique: dict[int, str] = {}
        state = self.state_dict(keep_vars=True)
        for name, tensor in state.items():
            unique.setdefault(id(tensor), name)
        return {name: state[name].detach() for name in unique.values()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take these weights: the tensors themselves, where they lie, so that nothing is held twice.

        The network may be one that takes no memory yet (`torch.device("meta")`). Raises ValueError that names
        the first tensor too many, missing or misshapen, or of another codec.
        """
        own = self.tensors()
        for name in sorted(own.keys() ^ tensors.keys()):
            raise ValueError(
                f"tensor '{name}' is {'missing from the checkpoint' if name in own else 'not in this model'}"
            )
        for name, tensor in own.items():
            if tensor.shape != tensors[name].shape:
                given, wanted = tuple(tensors[name].shape), tuple(tensor.shape)
                raise ValueError(
                    f"tensor '{name}' has shape {given} in the checkpoint and {wanted} in this model"
                )
            if name.startswith("codec.") and not torch.equal(tensor.cpu(), tensors[name].cpu()):
                raise ValueError(f"tensor '{name}' of this model's codec is not the checkpoint's")
        self.load_state_dict(dict(tensors), strict=False, assign=True)  # strict: the codec may stand twice
