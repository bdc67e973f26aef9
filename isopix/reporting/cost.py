"""What the training of a run has cost: images, time, computation, memory and energy."""

import math

from isopix.core.text import format_bytes
from isopix.recipes.cost import recipe_cost
from isopix.reporting.metrics import images_seen
from isopix.reporting.run_record import RunRecord

PREFIXES = ("", "k", "M", "G", "T", "P", "E")
JOULES_PER_WH = 3600
PEAK, JOULES = "peak_memory_bytes", "energy_joules"


def training_cost(run: RunRecord) -> list[tuple[str, str]]:
    """Return names and values, without what was not measured."""
    seconds = max((each["seconds"] for each in run.log if each["kind"] == "train"), default=0.0)
    hours, minutes = divmod(round(seconds / 60), 60)
    took = f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"
    facts = [("images seen", f"{images_seen(run):,}"), ("training time", took)]
    facts += [("images per second", f"{images_seen(run) / seconds:,.3g}")] if seconds else []
    return [*facts, *_computation(run), *_memory(run), *_energy(run)]


def _computation(run: RunRecord) -> list[tuple[str, str]]:
    """Return the floating-point operations of pre-training, as `isopix plan` counts them."""
    if run.recipe is None or run.recipe.finetune is not None or not images_seen(run):
        return []
    flops = images_seen(run) * recipe_cost(run.recipe).training_flops
    power = min(6, int(math.log10(flops)) // 3)
    return [("computation", f"{flops / 1000**power:.3g} {PREFIXES[power]}FLOP")]


def _memory(run: RunRecord) -> list[tuple[str, str]]:
    """Return the most memory at any log line: of the tensors on a GPU, or of the whole process."""
    of = "GPU memory" if _on_gpu(run) else "memory of the process"
    peak = max((each.get(PEAK, 0) for each in run.log), default=0)
    return [(f"peak {of}", format_bytes(peak))] if peak else []


def _energy(run: RunRecord) -> list[tuple[str, str]]:
    """Return the energy of the training steps, where all of them were counted."""
    train = [each for each in run.log if each["kind"] == "train"]
    if not train or any(JOULES not in each for each in train):
        return []
    of = "of the GPU" if _on_gpu(run) else "of the machine's processors"
    hours = max(each[JOULES] for each in train) / JOULES_PER_WH
    return [(f"energy {of}", f"{hours / 1000:.3g} kWh" if hours >= 1000 else f"{hours:.3g} Wh")]


def _on_gpu(run: RunRecord) -> bool:
    return str(run.environment.get("device", "")).startswith("cuda")
