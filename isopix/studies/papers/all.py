"""All protocols, registered."""

from isopix.studies.papers import igpt, patchformer, vit
from isopix.studies.papers.protocol import PROTOCOLS, find_protocol

__all__ = ["PROTOCOLS", "find_protocol", "igpt", "patchformer", "vit"]
