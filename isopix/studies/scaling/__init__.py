"""Scaling laws of pre-training."""
