"""How many images a short training evaluates: evaluation is at most a fifth of its work."""

from collections.abc import Collection

from isopix.recipes.recipe import Recipe

SHARE = 0.2  # of the forward and backward passes of a run
TRAINING_PASSES = 3  # of a training image, in forward passes of an evaluated one
EVALUATION_SETTINGS = ("evaluate_images", "num_test_images")
FEWEST = 64  # images; with fewer, chance alone moves an accuracy by six points and more


def with_affordable_evaluation(recipe: Recipe, given: Collection[str]) -> Recipe:
    """Return the recipe with fewer images in `evaluate_images` and `num_test_images` where these would take
    more than a tenth of the run each, and are not `given`, as paths of settings.

    Neither becomes less than 64, so that evaluation takes longer in the shortest runs.
    """
    config = recipe.train
    passes = SHARE / (1 - SHARE) * TRAINING_PASSES * config.steps * config.batch_size
    evaluations = 2 + (config.steps - 1) // config.evaluate_every  # the first and the last, too
    names = {path.rpartition(".")[2] for path in given}
    affordable = {"evaluate_images": passes / 2 / evaluations, "num_test_images": passes / 2}
    fewer = dict[str, int]()
    for name, images in affordable.items():
        configured, limit = getattr(config, name), max(FEWEST, int(images))
        if name not in names and (configured is None or configured > limit):
            fewer[name] = limit
    return recipe.updated(**fewer)
