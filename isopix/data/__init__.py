"""Datasets: from files to uint8 images with labels, and to training batches."""
