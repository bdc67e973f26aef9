"""HTML reports and model cards from run folders."""
