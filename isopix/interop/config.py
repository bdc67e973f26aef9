"""How a model of another library is read where its files do not say it."""

from pathlib import Path

from isopix.core.config import config


@config
class ImportConfig:
    """What is read in place of, or besides, the files of a model; each is for some kinds of models."""

    palette: Path | None = None
    """Palette of an Image GPT instead of its own; OpenAI's models need it: kmeans_centers.npy."""
    squash: bool = False
    """Resize images as ImageGPT's image processor does, bilinearly, regardless of aspect."""
    classes: Path | None = None
    """Text file with a class name per line, in the order of the logits; default: the model's."""
