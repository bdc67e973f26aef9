"""Progress as people see it: bars on a terminal or in a notebook, and lines elsewhere."""
