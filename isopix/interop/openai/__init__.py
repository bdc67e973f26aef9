"""OpenAI's Image GPT checkpoints in TensorFlow's format, read without TensorFlow."""
