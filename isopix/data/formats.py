"""The formats of datasets on disk, in words for help and errors; without imports, for instant help."""

# As errors list them; a path is read as the last one that claims it.
FORMATS = {
    "folder": "a folder of images",
    "tar": "tar files",
    "arrow": "Arrow files",
    "parquet": "Parquet files",
    "image": "an image",
    "npz": "an .npz file",
}


def local_formats() -> str:
    """Return all of them, as `a folder of images, tar files or an .npz file`."""
    *labels, last = FORMATS.values()
    return f"{', '.join(labels)} or {last}"
