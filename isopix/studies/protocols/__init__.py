"""The experiments behind the papers' tables and figures, at any scale."""
