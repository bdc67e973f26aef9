"""The tables of docs/data.md, docs/scale.md and docs/models.md."""

import json
from pathlib import Path

from cells import RESULTS, read, table

CORES = 16  # of a machine with one GPU
MODELS = Path(__file__).parents[1] / "isopix" / "shipped"
STORES = {"encoded": "`encoded`", "pixels": "`pixels`"}


def decode() -> str:
    """Return a row for each reader: images/s per core, and for random crops the ratio to Pillow."""
    found = read("decode-cpu.json")
    [(peer, theirs)] = [
        (name, rates) for name, rates in found["images_per_second"].items() if name != "isopix"
    ]
    ours, base = found["images_per_second"]["isopix"], theirs["Pillow"]["median"]
    names = {f"isopix, {name}": rate for name, rate in ours.items()}
    names |= {f"{peer}, {name}": rate for name, rate in theirs.items()}
    rows = []
    for name, rate in names.items():
        span = f"{rate['median']:,.0f} ({rate['min']:,.0f} to {rate['max']:,.0f})"
        ratio = "" if name.endswith("center crops") else f"{rate['median'] / base:.2f}×"  # less work
        rows.append((name, span, ratio))
    size, need = found["mean_file_bytes"] / 1e3, found["needed"]
    each = need["images_per_second"] / CORES
    count = ours["random crops"]["n"]
    work = f"{found['images']} JPEG files of {size:.0f} KB, {found['crop']}, batches of {found['batch']}"
    repeats = f"median and range of {count} repeats, {found['device']}, one thread, Pillow {found['pillow']}"
    training = f"`{need['recipe']}` on one {need['device']} at {need['mfu']:.0%} of its peak"
    margin = ours["random crops"]["median"] / each
    return table(("reader", "images/s per core (range)", ""), rows) + (
        f"\n{work}; {repeats}. {training} reads {need['images_per_second']:,.0f} images/s, {each:.0f} "
        f"per core with {CORES} cores; one core here decodes {margin:.1f} times as many.\n"
    )


def large_data() -> str:
    """Return a row for each store of the largest dataset: memory and size."""
    found = read("large-data-cpu.json")
    columns = ("images", "store", "peak memory while preparing", "in the whole run", "cache")
    rows = []
    largest = max(each["images"] for each in found["conditions"])
    for each in (each for each in found["conditions"] if each["images"] == largest):
        peaks = [f"{each['stages'][name]['peak_bytes'] / 1e9:.2f} GB" for name in ("prepare", "train")]
        cache = f"{each['cache_bytes'] / 1e9:.2f} GB"
        rows.append((f"{each['images']:,}", STORES[each["store"]], *peaks, cache))
    images = f"JPEG images of {found['side']}×{found['side']} pixels in tar shards of {found['per_shard']:,}"
    return table(columns, rows) + (
        f"\n{images}, trained for 100 steps at {found['trained_side']}×{found['trained_side']} pixels; "
        f"{found['device']}, one run each. All resident memory counts, mapped files too.\n"
    )


def scale() -> str:
    """Return a row for each number of processes and strategy, of each machine."""
    rows, notes = [], []
    for found in map(read, sorted(file.name for file in RESULTS.glob("scale-*.json"))):
        for each in found["conditions"]:
            rate = each["images_per_second"]
            name = f"{each['ranks']}, {each['parallel']}" if each["ranks"] > 1 else "1"
            span = f"{rate['median']:.1f} ({rate['min']:.1f} to {rate['max']:.1f})"
            efficiency = f"{each['efficiency']:.0%}" if each["ranks"] > 1 else ""
            rows.append((found["device"], name, span, efficiency, str(rate["n"])))
        work = f"`{found['recipe']}` with `{' '.join(found['settings'])}`, {found['scaling']} scaling"
        notes.append(f"\n{work}, one thread a process on a CPU, torch {found['torch']}.\n")
    columns = ("machine", "processes", "images/s (range)", "efficiency", "n")
    return "".join([table(columns, rows), *notes])


def shipped_models() -> str:
    loss, probe = "test loss (best baseline), nats per predicted code", "probe (best baseline)"
    columns = ("name", "objective", "data", "test images", loss, probe)
    return table(columns, map(_model, sorted(MODELS.glob("*/model.json"))))


def _model(path: Path) -> list[str]:
    model = json.loads(path.read_text())
    name, nats = model["best_baseline"]
    probe = "not measured"
    if model["best_probe_baseline"]:
        other, accuracy = model["best_probe_baseline"]
        probe = f"{model['probe_accuracy']:.1%} ({other} {accuracy:.1%})"
    return [
        f"`{path.parent.name}`",
        model["objective"],
        model["data"],
        f"{model['test_images']:,}",
        f"{model['test_loss']:.3f} ({name} {nats:.3f})",
        probe,
    ]
