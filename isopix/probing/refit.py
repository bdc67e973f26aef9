"""Refitting: the layer and setting that validation selected are fitted to train and validation together."""

from dataclasses import replace

import torch

from isopix.probing.config import ProbeConfig
from isopix.probing.feature_splits import FeatureSplits
from isopix.probing.probe import fit_probe
from isopix.probing.results import LayerScore


def refit_on_validation(
    splits: FeatureSplits, selected: LayerScore, config: ProbeConfig, *, device: torch.device
) -> LayerScore:
    """Fit the selected layer, the only one of `splits`, to train and validation together at the selected
    setting, and evaluate it on test (iGPT section 3.1).

    Features are standardized by all images of the fit. `val_accuracy` stays the one that the layer was
    selected by, as the validation images are no longer held out. Raises what `probe` raises.
    """
    name, _ = config.method.grid(config.l2_grid)
    method = config.method.fix(getattr(selected, name))
    l2_grid = config.l2_grid if selected.l2 is None else (selected.l2,)
    fixed = replace(config, method=method, l2_grid=l2_grid, l2_extra=())
    score = fit_probe(splits.with_validation_in_train(), fixed, device=device).best
    return replace(score, layer=selected.layer, val_accuracy=selected.val_accuracy)
