"""Stems: base classes, and embeddings of values, a table of vectors for each code or channel, summed."""

import abc
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

import torch
from einops import rearrange
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from isopix.codecs.base import Codec
from isopix.codecs.palette import Palette
from isopix.core.choices import PositiveNumber, Range, Size
from isopix.core.registry import register
from isopix.core.types import Codes, Grid, Images, PositionIndices, Tokens
from isopix.model.init import EMBEDDING, Glorot, InitScheme, InitTable, ModelPart, Normal, Zeros

PatchRow = UInt8[Tensor, "B 3 patch_size _"]  # patches side by side, which a stem reads like an image
Inputs = Images | Codes  # what a stem reads
VisibleInputs = PatchRow | Int[Tensor, "B M Q"]  # inputs that hold some positions of each image
Components = list[Tokens]  # a position is their sum; a masking may leave out some of them
ValueTable = Float[Tensor, "Q K D"]  # the embedding of every value of every code, or of every channel


class Stem(nn.Module, abc.ABC):
    """Images, or their codes, to the components of each position, which depend on that position alone."""

    reads_codes: ClassVar[bool] = False  # whether `inputs` are codes [B N Q] instead of images [B 3 H W]
    has_value_table: ClassVar[bool] = False  # whether every value has an embedding of its own
    if TYPE_CHECKING:

        def __call__(self, inputs: Inputs) -> Components: ...

    @abc.abstractmethod
    def forward(self, inputs: Inputs) -> Components:
        """Return the components, each [B N D]."""

    def gather(self, inputs: Inputs, positions: PositionIndices, grid: Grid) -> VisibleInputs:
        """Return inputs that hold these positions of each image alone."""
        if self.reads_codes:
            return torch.take_along_dim(inputs, positions[..., None], 1)
        return rearrange(gather_patches(inputs, positions, grid), "b n c p q -> b c p (n q)")

    def value_table(self) -> ValueTable:
        """Return the embedding of every value, of a stem that `has_value_table`."""
        raise NotImplementedError


class StemSpec(ModelPart, noun="stem"):
    """Settings of a stem."""

    @abc.abstractmethod
    def build(self, codec: Codec, width: int) -> Stem:
        """Return the stem. Raises ValueError for a codec that it cannot read."""

    @abc.abstractmethod
    def num_components(self, codec: Codec) -> int:
        """Return the number of components of a position."""

    @abc.abstractmethod
    def flops_per_token(self, codec: Codec, width: int) -> int:
        """Return the FLOPs of a forward pass per position; a multiply-add counts as two."""


def gather_patches(
    images: Images, positions: PositionIndices, grid: Grid
) -> UInt8[Tensor, "B M 3 patch_size patch_size"]:
    """Return the pixels of each image at these positions."""
    size = images.shape[2] // grid.rows
    patches = rearrange(images, "b c (h p) (w q) -> b (h w) c p q", p=size, q=size)
    image = torch.arange(len(images), device=images.device)[:, None]
    return patches[image, positions]


@register("token_embedding")
class TokenEmbeddingSpec(StemSpec):
    """The codec's codes as inputs: iGPT's palette embedding, or for bytes pix2vec, a table of 256 vectors for
    each channel (inductive biases of small isotropic nets, section 3.2).
    """

    def build(self, codec: Codec, width: int) -> Stem:
        return TokenEmbedding(codec, width)

    def num_components(self, codec: Codec) -> int:
        return codec.num_codes

    def flops_per_token(self, codec: Codec, width: int) -> int:
        return 0

    def init(self, scheme: InitScheme) -> InitTable:
        return {"tables.*": EMBEDDING[scheme]}


class TokenEmbedding(Stem):
    """components_iq = table_q[code_iq]."""

    reads_codes: ClassVar[bool] = True
    has_value_table: ClassVar[bool] = True

    def __init__(self, codec: Codec, width: int):
        super().__init__()
        tables = (nn.Embedding(codec.vocab_size, width) for _ in range(codec.num_codes))
        self.tables = cast("Sequence[nn.Embedding]", nn.ModuleList(tables))

    def value_table(self) -> ValueTable:
        return torch.stack([table.weight for table in self.tables])

    def forward(self, inputs: Codes) -> Components:
        return [table(codes) for table, codes in zip(self.tables, inputs.unbind(-1), strict=True)]


@register("color_embedding")
class ColorEmbeddingSpec(TokenEmbeddingSpec):
    """A table of vectors for the colors of a palette, in which at first near colors have near vectors: random
    Fourier features of the color (Rahimi & Recht 2007), which training changes.
    """

    sigma: PositiveNumber = 1.0
    """Standard deviation of the frequencies, in half periods over half of the range of levels."""
    std: PositiveNumber = 0.5
    """Standard deviation of the vectors at first; 0.5 as in `init=zero_residual`."""

    def build(self, codec: Codec, width: int) -> "ColorEmbedding":
        return ColorEmbedding(self, codec, width)


class ColorEmbedding(Stem):
    """components_i = table[code_i], at first std sqrt(2) cos(pi w c + b) of colors c in [-1, 1]."""

    reads_codes: ClassVar[bool] = True
    has_value_table: ClassVar[bool] = True

    def __init__(self, spec: ColorEmbeddingSpec, codec: Codec, width: int):
        super().__init__()
        if not isinstance(codec, Palette):
            raise ValueError("stem color_embedding needs the codec palette, whose codes are colors")
        frequencies, phases = spec.sigma * torch.randn(CHANNELS, width), 2 * math.pi * torch.rand(width)
        colors = codec.colors.to(phases.device) / 127.5 - 1
        features = math.sqrt(2) * (math.pi * colors @ frequencies + phases).cos()
        self.table = nn.Parameter(spec.std * features)

    def value_table(self) -> ValueTable:
        return self.table[None]

    def forward(self, inputs: Codes) -> Components:
        return [F.embedding(codes, self.table) for codes in inputs.unbind(-1)]


CHANNELS, LEVELS = 3, 256
Values = Float[Tensor, " 256"]  # 0..255, scaled to [-1, 1]
ValueFeatures = Float[Tensor, "3 256 F"]


class PixelStemSpec(StemSpec):
    """Base of stems that embed each channel of a pixel by its value."""

    def num_components(self, codec: Codec) -> int:
        return CHANNELS

    def flops_per_token(self, codec: Codec, width: int) -> int:
        return 0

    def init(self, scheme: InitScheme) -> InitTable:
        return {"project": Glorot(), "bias": Zeros(), "features.normals": Normal(1.0)}


@register("fourier_pixel_embedding")
class FourierPixelEmbeddingSpec(PixelStemSpec):
    """Random Fourier features g(p) = (sin 2 pi b_1 p, cos 2 pi b_1 p, ..) of p in [-1, 1], with b_i ~ N(0,
    sigma^2) for each channel; then linear (inductive biases of small isotropic nets, section 3).

    The paper's sigma is 1; it does not state the number of `frequencies`.
    """

    sigma: Annotated[float, Range(low=0)] = 1.0
    """Standard deviation of the frequencies; the paper's is 1."""
    frequencies: Size = 64
    """Number of frequencies per channel, which the paper does not state."""

    def label(self) -> str:
        return f"{self.frequencies} random Fourier features per channel, sigma {self.sigma:g}"

    def build(self, codec: Codec, width: int) -> "PixelEmbedding":
        return PixelEmbedding(FourierFeatures(self), 2 * self.frequencies, codec, width)


@register("linear_pixel_embedding", "linear embedding of the three channels")
class LinearPixelEmbeddingSpec(PixelStemSpec):
    """(x - 127.5) / 127.5 of each channel, then linear: "continuous" (inductive biases, section 3.2)."""

    def build(self, codec: Codec, width: int) -> "PixelEmbedding":
        return PixelEmbedding(ScaledValues(), 1, codec, width)


class FourierFeatures(nn.Module):
    """Sines and cosines of 2 pi sigma b p; `normals` are b for sigma 1, the same whatever sigma is."""

    normals: Tensor

    def __init__(self, spec: FourierPixelEmbeddingSpec):
        super().__init__()
        self.sigma = spec.sigma
        self.register_buffer("normals", torch.zeros(CHANNELS, spec.frequencies))

    def forward(self, values: Values) -> ValueFeatures:
        """Return sines and cosines, interleaved."""
        angles = 2 * math.pi * self.sigma * self.normals[:, None] * values[:, None]
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


class ScaledValues(nn.Module):
    """The value itself."""

    def forward(self, values: Values) -> ValueFeatures:
        return values[:, None].expand(CHANNELS, -1, 1)


class PixelEmbedding(Stem):
    """components_ic = W_c g_c(value_ic) + a_c: a linear layer whose bias is split over the channels c."""

    has_value_table: ClassVar[bool] = True

    def __init__(self, features: nn.Module, size: int, codec: Codec, width: int):
        super().__init__()
        if codec.patch_size != 1:
            patch = f"{codec.patch_size} x {codec.patch_size}"
            raise ValueError(f"pixel embeddings need positions of one pixel; this codec's are {patch} pixels")
        self.features = features
        self.project = nn.Linear(CHANNELS * size, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(CHANNELS, width))

    def value_table(self) -> ValueTable:
        values = torch.linspace(-1, 1, LEVELS, dtype=self.bias.dtype, device=self.bias.device)
        weight = rearrange(self.project.weight, "d (c f) -> c f d", c=CHANNELS)
        return self.features(values) @ weight + self.bias[:, None]

    def forward(self, inputs: Images) -> Components:
        values = rearrange(inputs, "b c h w -> c b (h w)").int()
        return [F.embedding(value, table) for value, table in zip(values, self.value_table(), strict=True)]
