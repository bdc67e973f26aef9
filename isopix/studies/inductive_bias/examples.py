"""Pictures of the networks that represent their blocks in the study's figures, in a file for each."""

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from isopix.analysis.inductive_biases import BiasMeasurements, ReceptiveField, measure_inductive_biases
from isopix.analysis.similarity import LevelSimilarity, stem_similarity
from isopix.core.random import generator
from isopix.core.types import Images
from isopix.runs.load import LoadedRun
from isopix.storage.arrays import read_arrays
from isopix.storage.atomic import replace_file
from isopix.studies.inductive_bias.metrics import BIAS_IMAGES, reconstruct_masked
from isopix.studies.inductive_bias.trials import Architecture

DEPTH = 3  # largest depth of an example (the paper's figure 5)
NUM_PICTURES = 6


class Example(NamedTuple):
    """A network that represents its block: reconstructions, the encoding of red, and its biases."""

    block: str
    depth: int
    original: Images
    pixel_mask: Bool[Tensor, "B H W"]
    target: Images
    prediction: Images
    exact: float  # fraction of the masked codes that is predicted exactly
    encoding: LevelSimilarity
    biases: BiasMeasurements


def is_example(architecture: Architecture, seed: int) -> bool:
    """Whether a trial may represent its block: with pix2vec, of the first seed, and of few blocks."""
    _, encoding, depth = architecture
    return encoding == "pix2vec" and seed == 0 and depth <= DEPTH


def save_example(path: Path, loaded: LoadedRun, images: Images) -> None:
    """Write the pictures of a network, made of its first test images."""
    network = loaded.network
    found = reconstruct_masked(loaded, images[:NUM_PICTURES], seed=0)
    encoding = stem_similarity(network.backbone.stem.value_table())[0]
    biases = measure_inductive_biases(network, images[:BIAS_IMAGES], generator(0, "biases"))
    fields = biases.receptive_field
    assert fields[0].samples is not None, "it was measured"
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        original=found.original.numpy(),
        pixel_mask=found.pixel_mask.numpy(),
        target=found.target.numpy(),
        prediction=found.prediction.numpy(),
        exact=np.array(found.accuracy),
        similarity=encoding.similarity.astype(np.float16),
        distance_preservation=np.array(encoding.distance_preservation),
        effective_rank=np.array(encoding.effective_rank),
        translation_error=np.array(biases.translation_error),
        permutation_error=np.array(biases.permutation_error),
        receptive_field=np.stack([each.fractions for each in fields]).astype(np.float32),
        receptive_field_samples=fields[0].samples,
    )
    replace_file(path, buffer.getvalue())


def read_example(path: Path, architecture: Architecture) -> Example:
    """Read what `save_example` wrote. Raises ValueError for anything else."""
    try:
        arrays = read_arrays(path)
        return Example(
            block=architecture[0],
            depth=architecture[2],
            original=torch.from_numpy(arrays["original"]),
            pixel_mask=torch.from_numpy(arrays["pixel_mask"]),
            target=torch.from_numpy(arrays["target"]),
            prediction=torch.from_numpy(arrays["prediction"]),
            exact=float(arrays["exact"]),
            encoding=LevelSimilarity(
                arrays["similarity"].astype(np.float64),
                float(arrays["distance_preservation"]),
                float(arrays["effective_rank"]),
            ),
            biases=BiasMeasurements(
                arrays["translation_error"].tolist(),
                [
                    ReceptiveField(each, arrays["receptive_field_samples"])
                    for each in arrays["receptive_field"].astype(np.float64)
                ],
                arrays["permutation_error"].tolist(),
            ),
        )
    except (KeyError, ValueError, TypeError, IndexError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}; without it, its pictures are left out") from None
