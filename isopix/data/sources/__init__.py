"""Where pictures come from: folders, NumPy archives, Parquet files, the Hugging Face Hub, bundled digits."""
