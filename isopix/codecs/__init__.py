"""Codecs: images to integer codes and back, position by position.

A codec's settings give the side of a position in pixels, and build the codec: from images, from a checkpoint,
or with placeholder values for counting parameters.
"""
