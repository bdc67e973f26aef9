"""Objectives: images to training batches, and the loss of a network on them."""
