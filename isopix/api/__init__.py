"""The Python interface: one function for each command, with the same name and meaning."""
