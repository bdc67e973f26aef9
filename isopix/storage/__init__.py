"""Storage: atomic files, hashes, artifacts, checkpoints, run folders, logs, locks and provenance."""
