"""Measurements of a network: attention, embeddings, inductive biases and cost, as numbers."""
