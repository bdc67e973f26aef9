"""Run an autoregressive backbone without its start token, for comparison with `transformers`."""

from isopix.model.backbone import Backbone
from isopix.model.masking import Shift, Zero


def without_start_token(backbone: Backbone) -> Backbone:
    """Return the backbone as the feature path of `transformers` runs it: no start token, pixel i at position
    i; all weights are shared.

    The model was trained with pixel i at position i + 1, so these are not the features of the paper. Raises
    ValueError for a backbone that does not shift its inputs.
    """
    if not isinstance(backbone.masking, Shift):
        raise ValueError("only an autoregressive model has a start token to omit")
    return Backbone(
        backbone.grid, (backbone.stem, Zero(), backbone.positions), [*backbone.blocks], backbone.norm
    )
