"""`isopix sample`, `complete` and `reconstruct`: draw images, and fill in hidden parts of them."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from isopix.core.choices import Count as Positive
from isopix.core.verb import Flat, verb
from isopix.generate import results
from isopix.verbs.options import Count, DeviceLike, Limit, OtherImages, RunLike, Seed, Split

Picture = Annotated[
    Path | None, "PNG file to write, or a folder for it. Default: the run's `samples` folder."
]
Nearest = Annotated[bool, "Show each sample next to the nearest training image."]


@verb()
def sample(
    run: RunLike,
    count: Count = 16,
    *,
    sampling: Flat[results.SamplingConfig] = results.DEFAULT_SAMPLING,
    seed: Seed = 0,
    nearest: Nearest = False,
    out: Picture = None,
    device: DeviceLike = "auto",
) -> results.SampleResult:
    """Sample images from an autoregressive run, pixel by pixel; image i depends on the seed and i only.

    Example: isopix sample runs/photos -n 16 --temperature 0.95
    """
    from isopix.plots.images import sample_grid, side_by_side
    from isopix.pretrained.images import nearest_training, save_picture
    from isopix.pretrained.run import open_run

    with open_run(run, device, writes="samples", verb="sample", out=out) as (folder, model):
        images = model.sample(count, sampling=sampling, seed=seed)
        distances, others = nearest_training(model.loaded, images) if nearest else (None, None)
    result = results.SampleResult(
        step=model.loaded.step,
        seed=seed,
        count=count,
        sampling=model.sampling(sampling),
        nearest=distances,
        images=images,
        nearest_images=others,
        picture=sample_grid(images)
        if others is None
        else side_by_side({"sample": [images], "nearest": [others]}),
    )
    return save_picture(result, folder, out, f"seed{seed}")


if TYPE_CHECKING:
    from isopix.generate.mask import MaskLike
    from isopix.pretrained.inputs import ImagesLike
else:  # without torch; what is read says what is wrong
    ImagesLike, MaskLike = Any, str | os.PathLike[str] | object

Images = Annotated[ImagesLike | None, Parameter(parse=False, help="Images instead of those of a dataset.")]
FirstImages = Annotated[
    Positive | None,
    Parameter(name=["--count", "-n"]),
    "Number of images. Default: 8, or all if there are fewer.",
]
Rows = Annotated[int | None, "Number of visible rows at the top. Default: half of the rows."]
Mask = Annotated[
    MaskLike | None,
    "Mask: half, rows:R, rectangle:TOP,LEFT,HEIGHT,WIDTH, random:RATIO, a registered mask, or an image file.",
]
Each = Annotated[Positive, "Number of completions per image."]


@verb()
def complete(
    run: RunLike,
    images: Images = None,
    *,
    data: OtherImages = None,
    split: Split = None,
    count: FirstImages = None,
    rows: Rows = None,
    mask: Mask = None,
    each: Each = 3,
    passes: Flat[results.Passes] = results.DEFAULT_PASSES,
    sampling: Flat[results.SamplingConfig] = results.DEFAULT_SAMPLING,
    limit: Limit = None,
    seed: Seed = 0,
    out: Picture = None,
    device: DeviceLike = "auto",
) -> results.CompletionResult:
    """Fill in masked parts of images several times, and print the likelihood of each completion.

    An autoregressive model uses only the pixels before each masked pixel; a masked model uses all visible
    pixels, and fills in some of the masked ones in each pass. Rectangles are in pixels of the model's
    resolution or, if a number has a decimal point, in fractions of the image size. A mask file masks its
    transparent or, without these, its white pixels. Join masks with `+`. The image is written to the run's
    `samples` folder.

    Example: isopix complete runs/photos --mask rectangle:8,8,16,16 --each 3 -n 8
    """
    from isopix.generate import mask as masks
    from isopix.objectives.visible_baselines import NearestVisible
    from isopix.plots.images import side_by_side
    from isopix.pretrained.images import prompt_images, save_picture
    from isopix.pretrained.run import open_run

    with open_run(run, device, writes="samples", verb="complete", out=out) as (folder, model):
        model.require("complete")
        codec, step = model.network.codec, model.loaded.step
        chosen = masks.chosen_mask(codec, rows=rows, mask=mask)
        inputs, measured = prompt_images(model.loaded, images, data, split, count, limit)
        found = model.complete(inputs, mask=chosen, each=each, passes=passes, sampling=sampling, seed=seed)
    raster = found.likelihood == "raster"
    made, known = found.images.unbind(1), masks.nearest_visible_pixels(found.images[:, 0], found.mask)
    shown = {"original": [inputs], "masked": made[:1], NearestVisible.name: [known]}
    result = results.CompletionResult(
        measurement=measured,
        warnings=(masks.LATER_PIXELS,) if raster and masks.later_known(found.mask, codec) else (),
        step=step,
        seed=seed,
        mask=masks.mask_label(chosen),
        mask_hash=masks.mask_hash(found.mask),
        hidden_fraction=tuple(found.mask.float().mean((1, 2)).tolist()),
        each=each,
        passes=None if raster else passes,
        sampling=model.sampling(sampling),
        likelihood=found.likelihood,
        log_likelihood=tuple(map(tuple, found.log_likelihood.tolist())),
        images=found.images,
        inputs=inputs,
        hidden=found.mask,
        picture=side_by_side({**shown, "completion" + "s" * (each > 1): made}, found.mask),
    )
    return save_picture(result, folder, out, f"{masks.mask_name(chosen)}-{result.mask_hash}-seed{seed}")


@verb()
def reconstruct(
    run: RunLike,
    images: Images = None,
    *,
    data: OtherImages = None,
    split: Split = None,
    count: FirstImages = None,
    limit: Limit = None,
    seed: Seed = 0,
    out: Picture = None,
    device: DeviceLike = "auto",
) -> results.ReconstructionResult:
    """Mask pixels or patches as in training and fill them in with the predictions of a masked run.

    Example: isopix reconstruct runs/photos-bert -n 8
    """
    from isopix.generate.mask import nearest_visible_pixels
    from isopix.objectives.visible_baselines import NearestVisible
    from isopix.plots.images import reconstruction_grid
    from isopix.pretrained.images import prompt_images, save_picture
    from isopix.pretrained.run import open_run

    with open_run(run, device, writes="samples", verb="reconstruct", out=out) as (folder, model):
        model.require("reconstruct")
        inputs, measured = prompt_images(model.loaded, images, data, split, count, limit)
        found = model.reconstruct(inputs, seed=seed)
    nearest = nearest_visible_pixels(found.original, found.pixel_mask)
    predictions = {NearestVisible.name: nearest, "prediction": found.prediction}
    result = results.ReconstructionResult(
        measurement=replace(measured, baselines=found.baselines),
        step=model.loaded.step,
        seed=seed,
        accuracy=found.accuracy,
        reconstruction=found,
        picture=reconstruction_grid(found.original, found.pixel_mask, predictions, found.target),
    )
    return save_picture(result, folder, out, f"seed{seed}")
