"""From files to uint8 images with labels: readers, resizing, augmentation, batches."""
