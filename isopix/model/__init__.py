"""The network: stem, masking, position embeddings, blocks, head; no datasets or objectives."""
