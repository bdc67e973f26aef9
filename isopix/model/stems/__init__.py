"""Stems: an image to one vector a position, each position seeing its own pixels only."""
