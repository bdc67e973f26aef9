"""Run an autoregressive network without its start token, for comparison with `transformers`."""

from isopix.model.masking import ZeroMasking
from isopix.model.network import Network


def without_start_token(network: Network) -> Network:
    """Return an autoregressive network, sharing all weights, that reads pixel i at position i.

    It was trained with pixel i at position i + 1, after the start token, so that every pixel is read with a
    position embedding that it was not trained with. These are not the features of the paper, but those of
    Hugging Face's ImageGPT; use them only to compare with numbers obtained that way.
    Raises ValueError for a network without a start token.
    """
    if not network.backbone.masking.shifts_right:
        raise ValueError("this network has no start token to leave out; only an autoregressive one has")
    return Network(network.codec, network.backbone.with_masking(ZeroMasking()), network.head)
