"""Images to integer codes and back: what must be named."""
