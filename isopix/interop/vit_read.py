"""Import ViT and ViTMAE models of Hugging Face `transformers`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Gt, Lt
from pydantic import BaseModel

from isopix.data.preprocess import Resample
from isopix.interop.imported_model import ImportedModel
from isopix.interop.name_tables import ACTIVATION_NAMES, VIT_NAMES, pairs, vit_table
from isopix.interop.vit import Channels, Fraction, Number, ViTSizes, read_vit
from isopix.interop.weights import CONFIG, PROCESSOR, WeightFiles, open_weights, read_config

RESCALE_FACTOR = 1 / 255
RESAMPLING: dict[int, Resample] = {2: "bilinear", 3: "bicubic", 4: "area"}  # Pillow's numbers


class ViTConfig(BaseModel):
    """`config.json` of a supported ViT or ViTMAE."""

    model_type: str
    hidden_size: Number
    num_hidden_layers: Number
    num_attention_heads: Number
    intermediate_size: Number
    image_size: Number | tuple[Number, Number]
    patch_size: Number | tuple[Number, Number]
    layer_norm_eps: Annotated[float, Gt(0), Lt(1)]
    hidden_act: Literal[tuple(ACTIVATION_NAMES)]  # type: ignore[valid-type]
    qkv_bias: bool = True
    hidden_dropout_prob: Fraction = 0.0
    attention_probs_dropout_prob: Fraction = 0.0
    num_channels: Literal[3] = 3
    mask_ratio: Fraction = 0.75
    id2label: dict[str, str] | None = None


class ViTProcessor(BaseModel):
    """`preprocessor_config.json` of a supported image processor."""

    do_rescale: Literal[True] = True
    rescale_factor: Annotated[float, Gt(0)] = RESCALE_FACTOR
    do_normalize: bool = True
    image_mean: Channels = (0.0, 0.0, 0.0)
    image_std: Channels = (1.0, 1.0, 1.0)
    resample: Literal[2, 3, 4] = 2
    do_resize: bool = True
    do_center_crop: bool | None = None
    size: Any = None
    crop_size: Any = None


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
        config = read_config(folder, CONFIG, ViTConfig)
        if config.model_type != model_type:
            raise ValueError(f"model_type is {config.model_type!r:.100}; it must be {model_type}")
        images, stored = read_config(folder, PROCESSOR, ViTProcessor), open_weights(folder)
        sizes = _sizes(config, images, classes or _classes(config, stored))
        table = vit_table(sizes.patch_size, qkv_bias=sizes.qkv_bias)
        if sizes.classes:
            table = (*table, *pairs("classifier", "classifier"))
        return read_vit(stored, sizes, VIT_NAMES, table, f"Hugging Face {folder.resolve().name}")
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def _sizes(config: ViTConfig, images: ViTProcessor, classes: tuple[str, ...]) -> ViTSizes:
    """Return the sizes of model and image processor. Raises ValueError for one that does something else."""
    if abs(images.rescale_factor / RESCALE_FACTOR - 1) > 1e-6:
        raise ValueError(f"rescale_factor is {images.rescale_factor}; only {RESCALE_FACTOR} is supported")
    if images.do_normalize and not {"image_mean", "image_std"} <= images.model_fields_set:
        raise ValueError("image_mean and image_std are missing")
    rows, cols = _pair(config.image_size)
    fraction = _crop_fraction(images, rows, cols)
    patch_size, other = _pair(config.patch_size)
    if patch_size != other:
        raise ValueError(f"patch_size is {patch_size} x {other}; patches must be squares")
    return ViTSizes(
        depth=config.num_hidden_layers,
        width=config.hidden_size,
        heads=config.num_attention_heads,
        inner=config.intermediate_size,
        patch_size=patch_size,
        rows=rows,
        cols=cols,
        epsilon=config.layer_norm_eps,
        activation=ACTIVATION_NAMES[config.hidden_act],
        qkv_bias=config.qkv_bias,
        dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        mean=images.image_mean if images.do_normalize else (0.0, 0.0, 0.0),
        std=images.image_std if images.do_normalize else (1.0, 1.0, 1.0),
        resample=RESAMPLING[images.resample],
        crop="squash" if fraction is None else "resized_center",
        crop_fraction=1.0 if fraction is None else fraction,
        classes=classes,
        mask_ratio=config.mask_ratio if config.model_type == "vit_mae" else None,
    )


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return size if isinstance(size, tuple) else (size, size)


def _crop_fraction(images: ViTProcessor, rows: int, cols: int) -> float | None:
    """Return the fraction of the shorter side that a center crop keeps, None if images are resized as a
    whole. Raises ValueError unless they get the size of the model's.
    """
    wanted = ({"height": rows, "width": cols}, *([rows] if rows == cols else []))
    if images.do_center_crop:
        shorter = images.size.get("shortest_edge") if isinstance(images.size, dict) else None
        if not isinstance(shorter, int) or shorter < rows or rows != cols or images.crop_size not in wanted:
            raise ValueError(
                f"size {images.size!r:.100} and crop_size {images.crop_size!r:.100} are not supported; "
                f"shortest_edge must be at least {rows}, and the crop the model's square, {rows} x {cols}"
            )
        return rows / shorter
    if images.do_resize and images.size not in wanted:
        raise ValueError(f"size is {images.size!r:.100}; it must be height {rows} and width {cols}")
    return None


def _classes(config: ViTConfig, stored: WeightFiles) -> tuple[str, ...]:
    """Return the names of the classes in the order of the logits, none for a model without a class head."""
    weight = VIT_NAMES.stored_names(stored.shapes).get("classifier.weight")
    if weight is None:
        return ()
    numbers = list(map(str, range(stored.shapes[weight][0])))
    labels = config.id2label or {number: f"LABEL_{number}" for number in numbers}
    if set(labels) != set(numbers):
        raise ValueError(f"id2label has other classes than the {len(numbers)} outputs of the class head")
    return tuple(labels[number] for number in numbers)
