"""Learning-free scores of single images: the sizes of lossless files, and the frequencies of codes."""

import torch
from einops import rearrange
from jaxtyping import Float
from PIL import Image, features

from isopix.analysis.likelihood import CodeValues, PerImage
from isopix.codecs.base import Codec
from isopix.core.types import Codes, Images
from isopix.data.splits import Split
from isopix.model.heads import HeadSpec
from isopix.objectives.base import PretrainModel
from isopix.objectives.baselines import Unigram
from isopix.objectives.file_baselines import FILE_OPTIONS, lossless_file
from isopix.train.baselines import TRAINING_IMAGES, code_batches

Frequencies = Float[torch.Tensor, "C K"]


def file_bits_per_dim(images: Images) -> dict[str, PerImage]:
    """Return the bits of each image as a file of each of FILE_OPTIONS that Pillow can write, divided by its
    number of pixels and channels. The whole file is counted, with headers: 57 bytes or more of a PNG file.
    """
    pixels = rearrange(images.cpu(), "b c h w -> b h w c").numpy()
    sizes = {
        name: [8 * len(lossless_file(Image.fromarray(each), name)) for each in pixels]
        for name in FILE_OPTIONS
        if name != "WEBP" or features.check("webp")
    }
    return {name: torch.tensor(bits, dtype=torch.float64) / pixels[0].size for name, bits in sizes.items()}


def code_frequencies(model: PretrainModel, head: HeadSpec, train: Split, seed: int) -> Frequencies | None:
    """Return the frequency of each code in training images, at most TRAINING_IMAGES of them, by channel; None
    without images and for heads without probabilities.
    """
    if not len(train) or not head.categorical:
        return None
    unigram = Unigram(model.network.codec, head)
    for batch in code_batches(model, train.sample(TRAINING_IMAGES), seed):
        unigram.fit(batch)
    return unigram.frequencies


def frequency_nats(codec: Codec, frequencies: Frequencies, codes: Codes) -> CodeValues:
    """Return -ln p of each code if all were independent, of these frequencies; the channels of a point are
    adjacent.
    """
    channels = torch.arange(codec.num_codes) % len(frequencies)
    return -frequencies[channels, codes].log()
