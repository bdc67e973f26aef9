"""All protocols by name; importing this module registers them."""

from collections.abc import Mapping

from isopix.core.text import did_you_mean
from isopix.studies.papers import igpt, vit_patchformer  # noqa: F401  registers them
from isopix.studies.papers.protocol import PROTOCOLS, PaperProtocol


def all_protocols() -> Mapping[str, PaperProtocol]:
    """Return the protocols by name."""
    return PROTOCOLS


def find_protocol(name: str) -> PaperProtocol:
    """Return the protocol of a name. Raises ValueError that lists all for another."""
    if name not in PROTOCOLS:
        hint = did_you_mean(name, PROTOCOLS)
        raise ValueError(f"unknown protocol '{name}'; {hint}protocols: {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]
