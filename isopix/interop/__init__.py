"""Import and export models of other libraries."""
