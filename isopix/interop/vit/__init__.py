"""Vision Transformers of Hugging Face and timm, read and written."""
