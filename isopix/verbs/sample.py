"""`isopix sample`: sample images from an autoregressive run."""

from typing import Annotated

from isopix.core.verb import Flat, verb
from isopix.generate.results import DEFAULT_SAMPLING, SampleResult, SamplingConfig
from isopix.verbs.options import Count, DeviceLike, RunLike, Seed

Nearest = Annotated[bool, "Show each sample beside the nearest training image."]


@verb()
def sample(
    run: RunLike,
    count: Count = 16,
    *,
    sampling: Flat[SamplingConfig] = DEFAULT_SAMPLING,
    seed: Seed = 0,
    nearest: Nearest = False,
    device: DeviceLike = "auto",
) -> SampleResult:
    """Sample images from an autoregressive run, pixel by pixel; image i is a function of the seed and i.

    Example: isopix sample runs/photos -n 16 --temperature 0.95
    """
    from isopix.plots.images import sample_grid, side_by_side
    from isopix.pretrained.images import nearest_training, save_picture
    from isopix.pretrained.run import open_run

    with open_run(run, device, writes="samples") as (folder, model):
        images = model.sample(count, sampling=sampling, seed=seed)
        distances, others = nearest_training(model.loaded, images) if nearest else (None, None)
    result = SampleResult(
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
    return save_picture(result, folder, f"seed{seed}")
