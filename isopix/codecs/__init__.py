"""Codecs: images to integer codes and back, position by position."""
