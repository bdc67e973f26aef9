"""Figures from numbers."""
