"""Complete settings of runs, as plain functions."""
