"""An analysis: the effective dimension of the hidden states of each layer.

isopix analyze runs/digits --plugin examples/extend/participation_ratio.py --only participation_ratio
"""

import torch

from isopix import parts

BATCH_SIZE = 16


@parts.register("participation_ratio")
class ParticipationRatio(parts.Analysis):
    """tr(C)^2 / tr(C^2) of the covariance C of a layer's hidden states over the positions of all images: 1 if
    they vary along one direction, the width if along all alike (Gao et al. 2017).
    """

    @torch.no_grad()
    def compute(self, given: parts.AnalysisInput) -> parts.Numbers:
        network, count = given.network, 0
        sums: dict[int, torch.Tensor] = {}  # by layer
        products: dict[int, torch.Tensor] = {}
        for images in given.images.split(BATCH_SIZE):
            for layer, tokens in enumerate(network.features(images.to(network.device))):
                states = given.backbone.patch_tokens(tokens).flatten(0, 1).double().cpu()
                sums[layer] = sums.get(layer, 0) + states.sum(0)
                products[layer] = products.get(layer, 0) + states.T @ states
            count += len(images) * given.backbone.grid.positions
        ratios = []
        for layer, total in sums.items():
            covariance = products[layer] / count - torch.outer(total, total) / count**2
            square = covariance.square().sum().item()
            ratios.append(covariance.trace().item() ** 2 / square if square else 0.0)
        return {
            **given.common_results(),
            "images": len(given.images),
            "width": len(sums[0]),
            "participation_ratios": ratios,
        }

    @parts.figure_style()
    def figure(self, numbers: parts.Numbers) -> parts.Figure:
        figure = parts.new_figure(height=3.0)
        axes = figure.add_subplot()
        axes.plot(numbers["participation_ratios"], marker="o")
        axes.set(xlabel="Layer (0 = embedding)", ylabel="Participation ratio")
        axes.set_ylim(bottom=0)
        return figure

    def caption(self, numbers: parts.Numbers) -> str:
        ratios = numbers["participation_ratios"]
        return (
            f"Participation ratio of the hidden states, of {numbers['width']} dimensions; last layer:"
            f" {ratios[-1]:.1f}; {numbers['images']:,} images{parts.image_source(numbers)}."
        )

    def table(self, numbers: parts.Numbers) -> parts.Table:
        rows = [(str(layer), f"{ratio:.1f}") for layer, ratio in enumerate(numbers["participation_ratios"])]
        return parts.Table("Dimensions of the hidden states", ("layer", "participation ratio"), rows)
