"""Import ViT and ViTMAE models of Hugging Face `transformers`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isopix.interop.huggingface.folder import CONFIG, PROCESSOR
from isopix.interop.imported_model import ImportedModel
from isopix.interop.name_tables import ACTIVATION_NAMES
from isopix.interop.vit import config as check
from isopix.interop.vit.config import Preprocessing, ViTConfig
from isopix.interop.vit.names import HUGGING_FACE_VIT, huggingface_table, stored_names
from isopix.interop.vit.read import read_vit
from isopix.interop.weight_files import WeightFiles, open_weights, quote
from isopix.storage import atomic

RESCALE_FACTOR = 1 / 255
RESAMPLING = {2: "bilinear", 3: "bicubic", 4: "area"}  # Pillow's numbers


def read_huggingface_vit(folder: Path, classes: tuple[str, ...] = ()) -> ImportedModel:
    """Import a ViTModel or ViTForImageClassification from a folder that `save_pretrained` wrote, with its
    image processor.

    `classes` replaces the names of the class head's outputs. A pooler, a mask token and a decoder of pixels
    are skipped, and reported. Raises ValueError, in one line that names the setting, tensor or file, for a
    model that would compute something else here.
    """
    return _read(folder, "vit", classes)


def read_mae(folder: Path) -> ImportedModel:
    """Import the encoder of a ViTMAEModel or ViTMAEForPreTraining from a folder that `save_pretrained` wrote,
    with its image processor; the decoder is skipped, and reported.

    Raises ValueError as `read_huggingface_vit` does.
    """
    return _read(folder, "vit_mae", ())


def _read(folder: Path, model_type: str, classes: tuple[str, ...]) -> ImportedModel:
    try:
        if not folder.is_dir():
            raise ValueError("not a folder")
        values, images = (_read_json(folder, name) for name in (CONFIG, PROCESSOR))
        if values.get("model_type") != model_type:
            raise ValueError(f"model_type is {quote(values.get('model_type'))}; it must be {model_type}")
        stored = open_weights(folder)
        config = _parse_config(values, images, classes or _classes(values, stored))
        table = huggingface_table(config.patch_size, qkv_bias=config.qkv_bias)
        return read_vit(stored, config, HUGGING_FACE_VIT, table, f"Hugging Face {folder.resolve().name}")
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    if not (folder / name).is_file():
        what = "the image processor, which says how pixels are normalized," if name == PROCESSOR else "it"
        raise ValueError(f"{name} is missing; save {what} into the folder by save_pretrained")
    return atomic.read_json(folder / name)


def _parse_config(
    values: Mapping[str, Any], images: Mapping[str, Any], classes: tuple[str, ...]
) -> ViTConfig:
    """Return the checked config of model and image processor. Raises ValueError that names the setting."""
    if values.get("num_channels", 3) != 3:
        raise ValueError(f"num_channels is {quote(values['num_channels'])}; only 3 is supported")
    width = check.integer(values, "hidden_size")
    rows, cols = check.side(values, "image_size")
    is_mae = values["model_type"] == "vit_mae"
    return ViTConfig(
        depth=check.integer(values, "num_hidden_layers"),
        width=width,
        heads=check.integer(values, "num_attention_heads"),
        expansion=check.expansion(width, check.integer(values, "intermediate_size"), "intermediate_size"),
        patch_size=_square(*check.side(values, "patch_size")),
        rows=rows,
        cols=cols,
        epsilon=check.number(values, "layer_norm_eps"),
        activation=check.choice(values, "hidden_act", ACTIVATION_NAMES),
        qkv_bias=check.choice({"qkv_bias": True, **values}, "qkv_bias", {True: True, False: False}),
        dropout=_dropout(values, "hidden_dropout_prob"),
        attention_dropout=_dropout(values, "attention_probs_dropout_prob"),
        preprocessing=_parse_preprocessing(images, rows, cols),
        classes=classes,
        mask_ratio=check.number({"mask_ratio": 0.75, **values}, "mask_ratio") if is_mae else None,
    )


def _dropout(values: Mapping[str, Any], name: str) -> float:
    return check.number({name: 0.0, **values}, name)


def _parse_preprocessing(images: Mapping[str, Any], rows: int, cols: int) -> Preprocessing:
    """Return the settings of an image processor. Raises ValueError for one that does something else."""
    if images.get("do_rescale", True) is not True:
        raise ValueError("do_rescale is false; only pixels divided by 255 are supported")
    factor = images.get("rescale_factor", RESCALE_FACTOR)
    if type(factor) is not float or abs(factor * 255 - 1) > 1e-6:
        raise ValueError(f"rescale_factor is {quote(factor)}; only {RESCALE_FACTOR} is supported")
    fraction = _crop_fraction(images, rows, cols)
    normalized = images.get("do_normalize", True)
    return Preprocessing(
        mean=check.channels(images, "image_mean") if normalized else (0.0, 0.0, 0.0),
        std=check.channels(images, "image_std") if normalized else (1.0, 1.0, 1.0),
        resample=check.choice({"resample": 2, **images}, "resample", RESAMPLING),
        crop="squash" if fraction is None else "resized_center",
        crop_fraction=1.0 if fraction is None else fraction,
    )


def _crop_fraction(images: Mapping[str, Any], rows: int, cols: int) -> float | None:
    """Return the fraction of the shorter side that a center crop keeps, None if images are resized as a
    whole. Raises ValueError unless they get the size of the model's.
    """
    size, crop_size = images.get("size"), images.get("crop_size")
    if images.get("do_center_crop"):
        shorter = size.get("shortest_edge") if isinstance(size, dict) else None
        if rows != cols or type(shorter) is not int or shorter < rows or _pair(crop_size) != (rows, cols):
            raise ValueError(
                f"size {quote(size)} and crop_size {quote(crop_size)} are not supported; the shortest_edge "
                f"must be at least {rows}, and the crop the square of the model, {rows} x {cols}"
            )
        return rows / shorter
    if images.get("do_resize", True) and _pair(size) != (rows, cols):
        raise ValueError(f"size is {quote(size)}; it must be height {rows} and width {cols}")
    return None


def _pair(size: object) -> tuple[object, object]:
    """Return height and width of a size, given as one number or by name."""
    if isinstance(size, dict) and set(size) == {"height", "width"}:
        return size["height"], size["width"]
    return size, size


def _square(rows: int, cols: int) -> int:
    if rows != cols:
        raise ValueError(f"patch_size is {rows} x {cols}; patches must be squares")
    return rows


def _classes(values: Mapping[str, Any], stored: WeightFiles) -> tuple[str, ...]:
    """Return the names of the classes in the order of the logits, none for a model without a class head."""
    weight = stored_names(stored.shapes, HUGGING_FACE_VIT).get("classifier.weight")
    if weight is None:
        return ()
    count = stored.shapes[weight][0] if stored.shapes[weight] else 0
    labels = values.get("id2label") or {str(number): f"LABEL_{number}" for number in range(count)}
    if not isinstance(labels, dict) or set(labels) != {str(number) for number in range(count)}:
        raise ValueError(f"id2label has other classes than the {count} outputs of the class head")
    return tuple(str(labels[str(number)]) for number in range(count))
