"""Runs: what a recipe becomes when it meets images: a run folder, a network again, and its evidence."""
