"""Image generation: samples, completions and reconstructions."""
