"""Made-up pictures [H W 3], and whole images of them."""

import numpy as np
import torch

from isopix.data.store import FileImages


def whole(*pictures: np.ndarray) -> FileImages:
    heights, widths = (torch.tensor([picture.shape[axis] for picture in pictures]) for axis in (0, 1))
    pixels = np.concatenate([picture.transpose(2, 0, 1).reshape(-1) for picture in pictures])
    areas = 3 * heights * widths
    files, numbers = (torch.from_numpy(pixels),), torch.zeros_like(areas)
    return FileImages(files, numbers, areas.cumsum(0) - areas, heights, widths)


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)


def smooth(height: int, width: int) -> np.ndarray:
    down, across, channel = np.ogrid[:height, :width, :3]
    return (127.5 + 127 * np.sin(down / 9 + across / 7 + channel)).astype(np.uint8)
