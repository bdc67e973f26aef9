"""Recipes: the complete settings of runs, as functions without arguments."""
