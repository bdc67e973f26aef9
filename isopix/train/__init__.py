"""One training loop, its run folder and its checkpoints."""
