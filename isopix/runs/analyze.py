"""The input of analyses, from a loaded run."""

from collections.abc import Callable

from isopix.analysis.base import AnalysisInput, QueryPosition
from isopix.core.types import Images
from isopix.model.network import Network
from isopix.runs.load import Loaded


def analysis_input(
    loaded: Loaded,
    images: Images,
    *,
    image_index: int = 0,
    query_positions: tuple[QueryPosition, ...] = (),
    renormalize: bool = True,
    progress: Callable[[int], None] = lambda images: None,
) -> AnalysisInput:
    """Return the analysis input of a run's network, with its seed, and an untrained network as a baseline."""

    def untrained() -> Network:
        shallow = loaded.recipe.updated(depth=1)  # position embeddings do not depend on the depth
        return shallow.build(loaded.network.codec).to(loaded.network.device)

    return AnalysisInput(
        loaded.network,
        images,
        image_index=image_index,
        query_positions=query_positions,
        renormalize=renormalize,
        causal=loaded.recipe.objective.causal,
        seed=loaded.recipe.train.seed,
        untrained=untrained,
        progress=progress,
    )
