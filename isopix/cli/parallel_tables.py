"""Tables of `isopix plan --devices`: time, memory and the command of each strategy on a cluster."""

from collections.abc import Sequence

from isopix.analysis.cluster import LINK_UTILIZATION
from isopix.api.results import PlanOutput
from isopix.cli.console import say, say_wrapped, show_table
from isopix.core.device_specs import GB
from isopix.core.text import command_line, format_duration
from isopix.recipes.cost import WARN_ABOVE
from isopix.recipes.parallel_plan import ParallelPlan, fastest, remedies

PARTS = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer state",
    "copies": "16-bit copies",
    "gathered": "gathered weights",
    "buffers": "buffers",
    "activations": "activations",
    "logits": "logits",
}
NO_NUMBER = "–"
RENDEZVOUS = ["--rdzv-backend=c10d", "--rdzv-endpoint=HOST:29500"]


def print_parallel_plans(found: PlanOutput, *, command: Sequence[object]) -> None:
    """Print the strategies on each cluster, and how to run the recommended one; `command` are the recipe and
    the options that it needs.
    """
    train = found.recipe.train
    work = f"{train.steps:,} steps of {train.batch_size} images"
    say_wrapped(f"{found.recipe.name}: {found.parameters:,} parameters, {work}")
    for plans in found.parallel:
        say("")
        _print_strategies(plans, found.price)
        _print_memory(plans)
        for plan in plans:
            if not plan.fits:
                say_wrapped(_why_not(plan, plans))
        best = fastest(plans)
        if best is None:
            say(f"nothing fits {plans[0].cluster.name}")
        else:
            say(f"recommended (*), the fastest that fits: {best.name}")
            say(_training_command(best, command))
    say("")
    say_wrapped(
        f"Times assume {found.mfu:.0%} of the peak FLOP/s, {LINK_UTILIZATION:.0%} of the links' bandwidth, "
        f"and communication during computation; {WARN_ABOVE:.0%} of the memory may be filled. Images: of "
        "each device, at a time x accumulate. GB sent: by each device in a step."
    )


def _print_strategies(plans: Sequence[ParallelPlan], price: float | None) -> None:
    cluster, best = plans[0].cluster, fastest(plans)
    nodes = f"{cluster.nodes} nodes of {cluster.per_node}" if cluster.nodes > 1 else "one node"
    title = f"{cluster.name}: {nodes}, {cluster.memory / GB:,.0f} GB each"
    columns = ["strategy", "images", "GB sent", "step", "efficiency", "time", "device hours"]
    rows = []
    for plan in plans:
        row = [f"{plan.name} *" if plan is best else plan.name, f"{plan.micro_batch} x {plan.accumulate}"]
        row.append(_gigabytes(plan.sent_bytes))
        if plan.fits:
            row += [f"{plan.time.total:.3g} s", f"{plan.efficiency:.1%}", format_duration(3600 * plan.hours)]
            row += [format_amount(plan.device_hours)]
        else:
            row += [NO_NUMBER] * 4
        if price is not None:
            row.append(format_amount(price * plan.device_hours) if plan.fits else NO_NUMBER)
        rows.append(row)
    show_table(title, columns + ["cost"] * (price is not None), rows)


def _print_memory(plans: Sequence[ParallelPlan]) -> None:
    parts = {part: [plan.memory._asdict()[part] for plan in plans] for part in PARTS}
    rows = [(PARTS[part], *map(_gigabytes, sizes)) for part, sizes in parts.items() if any(sizes)]
    rows.append(("sum", *(_gigabytes(plan.memory.total) for plan in plans)))
    show_table("GB of memory of each device", ["part", *(plan.name for plan in plans)], rows)


def _why_not(plan: ParallelPlan, plans: Sequence[ParallelPlan]) -> str:
    needed, usable = _gigabytes(plan.memory.total), _gigabytes(plan.memory_limit)
    others = " or ".join(remedies(plan, plans)) or "no known device"
    return f"{plan.name} does not fit: it needs {needed} GB of {usable} GB; what fits: {others}"


def _training_command(plan: ParallelPlan, command: Sequence[object]) -> str:
    """Return the command that trains by this plan, by torchrun if on several nodes."""
    cluster, words = plan.cluster, ["pretrain", *command, *plan.settings, "--out", "RUN"]
    if cluster.nodes == 1:
        return command_line(*words, *(["--devices", cluster.num_devices] if cluster.num_devices > 1 else []))
    start = f"torchrun --nnodes={cluster.nodes} --nproc-per-node={cluster.per_node} {' '.join(RENDEZVOUS)}"
    return f"{start} -m {command_line(*words)}"


def _gigabytes(count: int | float) -> str:
    return f"{count / GB:,.2f}" if count < GB else f"{count / GB:,.1f}"


def format_amount(count: float) -> str:
    """Format hours or money: integers from 100, else three significant digits."""
    return f"{count:,.0f}" if count >= 100 else f"{count:.3g}" if count >= 0.01 else "< 0.01"
