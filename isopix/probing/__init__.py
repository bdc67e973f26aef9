"""Linear probes, k-NN and baselines: the accuracy of frozen features."""
