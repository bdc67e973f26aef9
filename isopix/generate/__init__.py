"""Pictures out of a model: samples, completions, reconstructions."""
