"""The networks of the Image GPT protocols at each scale, and how they are probed and fine-tuned."""

from dataclasses import replace

from isopix.objectives.objectives import Masked
from isopix.probing.evaluators import LinearProbe
from isopix.recipes import igpt
from isopix.recipes.recipe import Recipe
from isopix.runs.series import lr_grid
from isopix.studies.papers.protocol import Setup, slug
from isopix.studies.papers.trials import FineTune, Pretrain, Probe
from isopix.train.config import Adam

CHECKPOINT = 0.0655  # of the steps: 65,500 of a million, about the first checkpoint of figure 3


def _tiny(depth: int, width: int, side: int = 14) -> Recipe:
    recipe = igpt.digits().updated(depth=depth, width=width, rows=side, cols=side)
    name = f"igpt.digits, {depth} blocks"
    return recipe.updated(name=name, steps=200, batch_size=64, evaluate_every=50, evaluate_images=450)


def _small(depth: int, width: int, side: int = 32) -> Recipe:
    recipe = igpt.tiny().updated(depth=depth, width=width, rows=side, cols=side)
    return recipe.updated(name=f"igpt.tiny, {depth} blocks")


def _bert(recipe: Recipe) -> Recipe:
    return recipe.updated(name=f"{recipe.name}, BERT", objective=Masked())


LARGE = igpt.l()
AT_48 = LARGE.updated(rows=48, cols=48, optimizer=Adam(lr=0.01))  # table 5
# The networks by name, at each scale: tiny, small and paper.
NETWORKS = {
    "igpt-s": (_tiny(2, 32), _small(2, 64), igpt.s()),
    "igpt-m": (_tiny(3, 48), _small(3, 96), igpt.m()),
    "igpt-l": (_tiny(4, 64), _small(4, 128), LARGE),
    "igpt-l-48": (_tiny(4, 64, 16), _small(4, 128, 40), AT_48),
    "igpt-xl": (_tiny(5, 96, 18), _small(5, 192, 48), igpt.xl()),
}
NETWORKS["igpt-l-bert"] = (_bert(_tiny(4, 64)), _bert(_small(4, 128)), igpt.l_bert())


def igpt_network(setup: Setup, name: str) -> Pretrain:
    """Return a network, probed in pre-training for figure 3."""
    small, medium, paper = NETWORKS[name]
    network = setup.network(name, setup.choose(tiny=small, small=medium, paper=paper))
    if network.given is not None:
        return network
    images = setup.choose(tiny=1000, small=2000, paper=50_000)
    every = max(1, round(CHECKPOINT * network.recipe.train.steps))
    source = setup.probe_data(network, *setup.datasets("cifar10"))
    probe = LinearProbe(every=every, num_train=images, num_val=images // 2, source=source)
    return replace(network, recipe=network.recipe.updated(evaluators=(probe,)))


def igpt_probe(setup: Setup, network: Pretrain, data: str, **options: object) -> Probe:
    """Return a probe of every layer; options as in `isopix.probe`. SGD has the paper's iterations."""
    iterations = setup.choose(tiny=300, small=3000, paper=1_000_000)
    settings = (f"iterations={iterations}",) if options.get("method") == "sgd" else ()
    how = "".join(f"-{option.replace('_', '-')}" for option in options)
    name = f"probe-{network.name}-{slug(data)}{how}"
    return Probe(name, network, setup.probe_data(network, data), options, settings)


def igpt_finetune(
    setup: Setup, network: Pretrain, data: str, *settings: str, masks: int | None = None
) -> FineTune:
    """Fine-tuning with a search for the learning rate."""
    lr = network.recipe.train.optimizer.lr
    grid = lr_grid(lr, setup.choose(tiny=0.09, small=0.009, paper=0.009) * lr)
    steps, every = setup.choose(tiny=(100, 25), small=(1000, 50), paper=(300_000, 1000))
    return FineTune(
        f"finetune-{network.name}-{slug(data)}",
        network,
        setup.finetune_settings(data, f"steps={steps}", f"evaluate_every={every}", *settings),
        tuple((f"optimizer.lr={each}",) for each in grid),
        sequential=True,
        refit=True,
        mask_ensemble=masks,
    )


def image_size_of(network: Pretrain) -> str:
    """Return rows × columns of the images in pixels."""
    return f"{network.recipe.data.rows}×{network.recipe.data.cols}"
