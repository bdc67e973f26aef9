"""Linear probes, k-NN and the baselines beside them: features to accuracy."""
