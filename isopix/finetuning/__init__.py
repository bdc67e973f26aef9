"""Fine-tuning: a classifier on a pre-trained backbone, and its metrics."""
