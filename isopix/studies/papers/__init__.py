"""The experiments behind the tables and figures of the papers."""
