"""Stems: images or codes to vectors for each position, which depend on the pixels of that position alone."""
