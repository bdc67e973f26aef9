"""Stem, masking, positions, blocks, head: the network, knowing nothing of data, objectives or optimizers."""
