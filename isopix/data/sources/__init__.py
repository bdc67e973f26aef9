"""Sources of images: folders, NumPy archives, Parquet files, the Hugging Face Hub, scikit-learn's digits."""
