"""Numbers to figures."""
