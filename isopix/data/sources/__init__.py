"""Sources of images: folders, NumPy, Parquet, tar and Arrow files, the Hugging Face Hub, bundled digits."""
