"""Strategies to train a recipe on several devices, each with the chunks of the batch that fit its memory."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from isopix.analysis.cluster import Cluster
from isopix.analysis.parallel_cost import (
    DeviceMemory,
    StepTime,
    TrainingWork,
    device_memory,
    parallel_efficiency,
    sharding_units,
    step_time,
    traffic,
)
from isopix.core.device_specs import DEVICE_SPECS
from isopix.recipes.cost import WARN_ABOVE, divisors, logits_gradient_bytes, memory_by_depth, recipe_cost
from isopix.recipes.recipe import Recipe
from isopix.train.parallel import Strategy


class ParallelPlan(NamedTuple):
    """A strategy on a cluster, and what it is estimated to take: bytes of a device, seconds of a step, and
    the hours of all steps. `efficiency` is the speed relative to as many times that of one device with enough
    memory for all activations. A device computes `micro_batch` images at a time, and may use `memory_limit`
    bytes. Without `fits`, the memory is the least that the strategy needs.
    """

    cluster: Cluster
    strategy: Strategy
    recompute: bool
    accumulate: int
    micro_batch: int
    memory: DeviceMemory
    memory_limit: int
    fits: bool
    sent_bytes: float
    time: StepTime
    efficiency: float
    hours: float

    @property
    def device_hours(self) -> float:
        """The hours of all devices together."""
        return self.hours * self.cluster.num_devices

    @property
    def name(self) -> str:
        """The strategy for people: `fsdp, recompute`."""
        strategy = self.strategy if self.cluster.num_devices > 1 else "one device"
        return f"{strategy}, recompute" if self.recompute else strategy

    @property
    def record(self) -> dict[str, Any]:
        """All numbers, ready for JSON."""
        seconds = {**self.time._asdict(), "step": self.time.total}
        memory = {**self.memory._asdict(), "total": self.memory.total}
        numbers = {**self._asdict(), "cluster": self.cluster._asdict(), "time": seconds, "memory": memory}
        return {
            "devices": self.cluster.name,
            **numbers,
            "device_hours": self.device_hours,
            "settings": self.settings,
        }

    @property
    def settings(self) -> list[str]:
        """The settings of training that differ from the defaults."""
        parallel = [f"parallel={self.strategy}"] * (self.strategy != "ddp")
        recompute = ["recompute=true"] * self.recompute
        return [*parallel, *recompute, *[f"accumulate={self.accumulate}"] * (self.accumulate > 1)]


def training_work(recipe: Recipe, *, recompute: bool) -> TrainingWork:
    """Return what training a recipe takes. Raises ValueError for a network too large for any memory."""
    # Autocast has the copies of all weights until the forward pass ends, also of blocks that are recomputed.
    copies = memory_by_depth(recipe.updated(recompute=False))
    recipe = recipe.updated(recompute=recompute)
    costs, memory = recipe_cost(recipe), memory_by_depth(recipe)
    if memory is None or copies is None:
        raise ValueError(f"a network of width {recipe.model.width} is too large for any memory")
    train = recipe.train
    return TrainingWork(
        units=sharding_units(recipe.outline()),
        optimizer=train.optimizer,
        precision=train.gpu_precision,
        batch_size=train.batch_size,
        steps=train.steps,
        forward_flops=costs.forward_flops,
        backward_flops=costs.training_flops - costs.forward_flops,
        activation_bytes=memory.activation_bytes,
        logits_bytes=logits_gradient_bytes(recipe),
        copy_bytes=copies.copy_bytes,
    )


def parallel_plans(recipe: Recipe, clusters: Sequence[Cluster]) -> list[list[ParallelPlan]]:
    """Return the strategies on each cluster: DDP and FSDP, each with all activations and with recomputation.

    Raises ValueError for a batch that cannot be split over the devices, as training does.
    """
    for cluster in clusters:
        _check_batch(recipe, cluster)
    jobs = {recompute: training_work(recipe, recompute=recompute) for recompute in (False, True)}
    return [
        [
            _plan(jobs, strategy, cluster, recompute=recompute, accumulate=recipe.train.accumulate)
            for strategy in (("ddp", "fsdp") if cluster.num_devices > 1 else ("ddp",))
            for recompute in jobs
        ]
        for cluster in clusters
    ]


def fastest(plans: Sequence[ParallelPlan]) -> ParallelPlan | None:
    """Return the plan with the shortest step of those that fit, the first of equals; None if none fits."""
    return min((each for each in plans if each.fits), key=lambda each: each.time.total, default=None)


def remedies(plan: ParallelPlan, plans: Sequence[ParallelPlan]) -> list[str]:
    """Return what would fit where this plan does not: settings of other plans of the same cluster, and the
    smallest device whose memory is enough.
    """
    found = [" ".join(each.settings) or "parallel=ddp" for each in plans if each.fits]
    needed = plan.memory.total / WARN_ABOVE
    sizes = {name: spec.memory for name, spec in DEVICE_SPECS.items() if spec.links}
    larger = [name for name in sorted(sizes, key=lambda name: sizes[name]) if sizes[name] >= needed]
    return [*found, *(f"{plan.cluster.num_devices}x{name}" for name in larger[:1])]


def _check_batch(recipe: Recipe, cluster: Cluster) -> None:
    train = recipe.train
    try:
        train.check_ranks(cluster.num_devices)
    except ValueError as error:
        counts = ", ".join(map(str, divisors(train.batch_size // train.accumulate)))
        raise ValueError(f"{cluster.name}: {error}; allowed numbers of devices: {counts}") from None


def _plan(
    jobs: Mapping[bool, TrainingWork],
    strategy: Strategy,
    cluster: Cluster,
    *,
    recompute: bool,
    accumulate: int,
) -> ParallelPlan:
    """A strategy with the fewest chunks that fit, of those that are a multiple of `accumulate`."""
    job = jobs[recompute]
    share, limit = job.batch_size // cluster.num_devices, round(WARN_ABOVE * cluster.memory)
    choices = [n for n in divisors(share) if n % accumulate == 0]
    needs = {n: device_memory(job, strategy, cluster.num_devices, accumulate=n) for n in choices}
    fitting = [n for n in choices if needs[n].total <= limit]
    chosen = fitting[0] if fitting else min(choices, key=lambda n: needs[n].total)
    time = step_time(job, strategy, cluster, accumulate=chosen)
    return ParallelPlan(
        cluster=cluster,
        strategy=strategy,
        recompute=recompute,
        accumulate=chosen,
        micro_batch=share // chosen,
        memory=needs[chosen],
        memory_limit=limit,
        fits=bool(fitting),
        sent_bytes=traffic(job, strategy, cluster.num_devices, accumulate=chosen).sent(cluster),
        time=time,
        efficiency=parallel_efficiency(jobs[False], time, cluster),
        hours=job.steps * time.total / 3600,
    )
