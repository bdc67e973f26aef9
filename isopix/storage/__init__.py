"""What outlives a process: atomic files, checkpoints, run folders, logs, locks and provenance."""
