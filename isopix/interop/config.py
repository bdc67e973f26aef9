"""How a model of another library is read where its files do not say it."""

from pathlib import Path

from isopix.core.config import config


@config
class ImportConfig:
    """What is read in place of, or besides, the files of a model; each is for some kinds of models."""

    palette: Path | None = None
    """Palette of an Image GPT; required for OpenAI's models: kmeans_centers.npy."""
    squash: bool = False
    """Resize bilinearly without preserving the aspect ratio, as ImageGPT's image processor does."""
    classes: Path | None = None
    """Text file with one class name per line, in the order of the logits. Default: the model's names."""
