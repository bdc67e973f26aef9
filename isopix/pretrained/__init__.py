"""A pre-trained model as a torch module: what `isopix.load` returns, its features and its images."""
