"""Hugging Face's ImageGPT folders, read and written."""
