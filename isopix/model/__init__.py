"""The network: stem, masking, position embeddings, blocks, head; no data sets or objectives."""
