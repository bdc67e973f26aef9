"""Words and numbers that settings, functions and options share; without PyTorch, so that help is instant."""

from typing import Literal

Precision = Literal["fp32", "bf16"]
FeatureKind = Literal["normed", "residual"]
Pool = Literal["mean", "last", "max", "first", "grid2", "grid4", "flatten"]
SplitName = Literal["train", "validation", "test"]
Selection = Literal["validation", "cross-validation"]
ExportFormat = Literal["isopix", "huggingface"]

MFU = 0.4  # model FLOPs utilization: what well-tuned code reaches at these widths
EXAMINED_IMAGES = 50_000  # of each split in a survey: all of CIFAR, a minute or two of photographs
