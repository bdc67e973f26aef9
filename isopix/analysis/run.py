"""All analyses of a network."""

from collections.abc import Iterator

from isopix.analysis.attention_analyses import (
    AttentionDistanceAnalysis,
    AttentionMapsAnalysis,
    AttentionRolloutAnalysis,
)
from isopix.analysis.base import Analysis, AnalysisInput, NotApplicable, Numbers
from isopix.analysis.embedding_analyses import (
    EmbeddingPCAAnalysis,
    InductiveBiasesAnalysis,
    PositionEmbeddingsAnalysis,
)

ANALYSES: dict[str, Analysis] = {
    analysis.name: analysis
    for analysis in (
        AttentionDistanceAnalysis(),
        AttentionMapsAnalysis(),
        AttentionRolloutAnalysis(),
        PositionEmbeddingsAnalysis(),
        EmbeddingPCAAnalysis(),
        InductiveBiasesAnalysis(),
    )
}


def run_analyses(given: AnalysisInput) -> Iterator[tuple[str, Numbers | NotApplicable]]:
    """Yield the name and the results of every analysis, or why it does not apply to the network."""
    for name, analysis in ANALYSES.items():
        reason = analysis.not_applicable_reason(given.network)
        yield name, analysis.compute(given) if reason is None else NotApplicable(reason)
