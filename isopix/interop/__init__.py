"""Other people's models: their names and files, and ours."""
