"""Numbers and figures to one page."""
