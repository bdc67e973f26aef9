"""Published numbers with their protocols."""
