"""The network: stem, masking, position embeddings, blocks and head; no data sets or objectives."""
