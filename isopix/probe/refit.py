"""Folding back: what validation has chosen learns from the validation images too, and is judged once."""

from dataclasses import replace

import torch

from isopix.probe.feature_splits import Splits
from isopix.probe.probe import probe
from isopix.probe.results import LayerScore, Protocol


def fold_back(splits: Splits, chosen: LayerScore, protocol: Protocol, *, device: torch.device) -> LayerScore:
    """The chosen layer, which `splits` hold alone, fitted to train and validation images together at the
    strength, rate or number that was chosen, and judged on test (iGPT section 3.1).

    Features are standardised by all images that are learnt from. `validation` stays the accuracy that the
    layer was chosen by, as these images tell nothing any more. Raises what `probe` raises.
    """
    name, _ = protocol.method.grid(protocol.strengths)
    method = protocol.method.only(getattr(chosen, name))
    strengths = protocol.strengths if chosen.strength is None else (chosen.strength,)
    settled = replace(protocol, method=method, strengths=strengths, weaker=())
    score = probe(splits.folded(), settled, device=device).score
    return replace(score, layer=chosen.layer, validation=chosen.validation)
