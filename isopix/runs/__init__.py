"""Runs: train, resume, load, probe and evaluate a recipe in a run folder."""
