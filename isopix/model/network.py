"""Network: codec, backbone and head as one module; the tensors of a checkpoint."""

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from isopix.codecs.base import Codec
from isopix.core.types import Codes, Grid, Images, Logits, Mask
from isopix.model.attention import Attention
from isopix.model.backbone import Backbone, FeatureKind, HiddenState
from isopix.model.blocks.transformer import Block
from isopix.model.heads import Likelihood
from isopix.model.masking import ZeroMasking
from isopix.model.mlp import TwoLayerMLP
from isopix.model.stems.pixels import Inputs

LARGE_MATRIX = 2**18  # numbers, from which on bf16 is faster; in float32 smaller ones stay in the caches


class Network(nn.Module):
    """Inputs to logits. `inputs` are what the stem reads: codes, or images."""

    if TYPE_CHECKING:

        def __call__(self, inputs: Inputs, mask: Mask | None = None) -> Logits: ...

    def __init__(self, codec: Codec, backbone: Backbone, head: Likelihood):
        super().__init__()
        self.codec, self.backbone, self.head = codec, backbone, head

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def forward(self, inputs: Inputs, mask: Mask | None = None) -> Logits:
        """Return the logits [B N Q K] of every position. Raises ValueError for a head without logits."""
        return self.head.logits(self.backbone(inputs, mask))

    def predict(self, inputs: Inputs, mask: Mask | None = None) -> Codes:
        return self.head.mode(self.backbone(inputs, mask))

    def inputs_of(self, images: Images) -> Inputs:
        return self.codec.encode(images) if self.backbone.stem.reads_codes else images

    def inputs_of_codes(self, codes: Codes, grid: Grid | None = None) -> Inputs:
        return codes if self.backbone.stem.reads_codes else self.codec.decode(codes, grid)

    def visible_pixels(self, images: Images) -> Images:
        """Return the images as the stem reads them: all pixels, or those that the codes stand for."""
        if not self.backbone.stem.reads_codes:
            return images
        return self.codec.decode(self.codec.encode(images))

    def features(
        self, images: Images, mask: Mask | None = None, *, kind: FeatureKind = "normed"
    ) -> Iterator[HiddenState]:
        return self.backbone.features(self.inputs_of(images), mask, kind=kind)

    def truncated(self, layer: int) -> "Network":
        return Network(self.codec, self.backbone.truncated(layer), self.head)

    def tensors(self) -> dict[str, Tensor]:
        """Return weights and saved buffers by name, each tensor once."""
        return {name: tensor.detach() for name, tensor in self.state_dict(keep_vars=True).items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Use these tensors as weights and buffers, without copies; the network may be on the meta device."""
        own = self.tensors()
        for name in sorted(own.keys() ^ tensors.keys()):
            where = "missing from the checkpoint" if name in own else "not in this model"
            raise ValueError(f"tensor '{name}' is {where}")
        for name, tensor in own.items():
            if tensor.shape != tensors[name].shape:
                given, expected = tuple(tensors[name].shape), tuple(tensor.shape)
                shapes = f"{given} in the checkpoint and {expected} in this model"
                raise ValueError(f"tensor '{name}' has shape {shapes}")
            if name.startswith("codec.") and not torch.equal(tensor.cpu(), tensors[name].cpu()):
                raise ValueError(f"tensor '{name}' of this model's codec differs from the checkpoint's")
        same_type = {name: tensor.to(own[name].dtype) for name, tensor in tensors.items()}  # of bf16 files
        self.load_state_dict(same_type, strict=True, assign=True)


def without_start_token(network: Network) -> Network:
    """Return an autoregressive network, sharing all weights, that reads pixel i at position i.

    It was trained with pixel i at position i + 1: these are not the features of the paper, but those of
    Hugging Face's ImageGPT; use them only to compare with numbers obtained that way.
    """
    if not network.backbone.masking.shifts_right:
        raise ValueError("this network has no start token to leave out; only an autoregressive one has")
    return Network(network.codec, network.backbone.with_masking(ZeroMasking()), network.head)


class RoundedLinear(nn.Linear):
    """A linear layer of bf16 weights and product, as under autocast; the output has the input's type."""

    def __init__(self, layer: nn.Linear):
        super().__init__(layer.in_features, layer.out_features, bias=layer.bias is not None, device="meta")
        for name, parameter in layer.named_parameters():
            rounded = parameter.detach().bfloat16()
            setattr(self, name, nn.Parameter(rounded, requires_grad=False))

    def forward(self, rows: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows outputs"]:
        return F.linear(rows.bfloat16(), self.weight, self.bias).to(rows.dtype)


def with_rounded_matrices(network: Network) -> Network:
    """Return the network with large matrices rounded to bf16 once, for sampling on CPUs; others shared."""
    layers = network.backbone.layers
    rounded = {block: cast("Block", _rounded(block)) for block in dict.fromkeys(layers)}
    backbone = network.backbone.with_blocks([rounded[each] for each in layers])
    return Network(network.codec, backbone, network.head)


def _rounded(module: nn.Module) -> nn.Module:
    rounds = isinstance(module, Attention | TwoLayerMLP)
    children: dict[str, nn.Module | None] = {}
    for name, child in module._modules.items():
        if child is not None and rounds and _is_large_matrix(child):
            children[name] = RoundedLinear(child)
        else:
            children[name] = None if child is None else _rounded(child)
    if all(children[name] is child for name, child in module._modules.items()):
        return module
    copied = copy.copy(module)
    copied._modules = children
    return copied


def _is_large_matrix(layer: nn.Module) -> TypeGuard[nn.Linear]:
    """Return whether a layer is a large linear layer and no more: no subclass, parametrization or hook."""
    if not isinstance(layer, nn.Linear) or type(layer) is not nn.Linear:
        return False
    return layer.weight.numel() >= LARGE_MATRIX and not layer._forward_hooks and not layer._forward_pre_hooks


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Set a module to evaluation mode; afterwards, restore the mode of each of its submodules."""
    modes = {each: each.training for each in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for each, training in modes.items():
            each.training = training


class _NanFilled(TorchFunctionMode):
    """Fills the memory that `torch.empty` returns, so that a parameter left as it was is found."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in (torch.empty, torch.empty_like) and made.is_floating_point():
            made.fill_(torch.nan)
        return made


@contextmanager
def seeded_construction(seed: int) -> Iterator[None]:
    """Make what modules draw as they are made a function of `seed`, and uninitialized memory nan."""
    with torch.random.fork_rng(devices=[]), _NanFilled():
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Put the parameters of modules made by this thread on the meta device; buffers have their values."""
    thread = threading.get_ident()

    def move(module: nn.Module, name: str, parameter: nn.Parameter | None) -> nn.Parameter | None:
        if parameter is None or parameter.is_meta or threading.get_ident() != thread:
            return None  # keeps the parameter as it is
        return nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)

    hook = register_module_parameter_registration_hook(move)  # type: ignore[arg-type]  # as torch documents
    try:
        yield
    finally:
        hook.remove()


def unsaved_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return the buffers of a module, and the tensors among its attributes, that its `state_dict` lacks."""
    saved = {id(tensor) for tensor in module.state_dict(keep_vars=True).values()}
    return {
        f"{prefix}.{name}".lstrip("."): value
        for prefix, part in module.named_modules()
        for name, value in {**part._buffers, **vars(part)}.items()
        if isinstance(value, Tensor) and id(value) not in saved
    }
