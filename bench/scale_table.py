"""The tables of docs/scale.md: training in several processes, measured and planned."""

from statistics import median

from cells import RESULTS, read


def scale() -> str:
    """Return a row for each number of processes and strategy, of each machine."""
    rows = ["| machine | processes | images/s (range) | efficiency | n |", "|---|---|---|---|---|"]
    for found in map(read, sorted(file.name for file in RESULTS.glob("scale-*.json"))):
        for each in found["conditions"]:
            rate = each["images_per_second"]
            name = f"{each['ranks']}, {each['parallel']}" if each["ranks"] > 1 else "1"
            span = f"{rate['median']:.1f} ({rate['min']:.1f} to {rate['max']:.1f})"
            efficiency = f"{each['efficiency']:.0%}" if each["ranks"] > 1 else ""
            rows.append(f"| {found['device']} | {name} | {span} | {efficiency} | {rate['n']} |")
        work = f"`{found['recipe']}` with `{' '.join(found['settings'])}`, {found['scaling']} scaling"
        rows.append(f"\n{work}, one thread a process on a CPU, torch {found['torch']}.\n")
    return "\n".join(rows)


def plans() -> str:
    """Return a row for each strategy of iGPT-L and -XL on each cluster."""
    columns = "recipe, devices, strategy, images, GB of memory, GB sent, step, efficiency, days, device-days"
    rows = [f"| {columns.replace(', ', ' | ')} |", "|---" * 10 + "|"]
    for found in map(read, sorted(file.name for file in RESULTS.glob("plan-*.json"))):
        for each in found["parallel"]:
            name = each["strategy"] + ", recompute" * each["recompute"]
            mark = "**" * each["recommended"]
            images = f"{each['micro_batch']} × {each['accumulate']}"
            recipe = f"`{found['recipe']}`{', fp32' * (found['precision'] == 'fp32')}"
            cells = [recipe, each["devices"], f"{mark}{name}{mark}", images]
            cells += [f"{each['memory']['total'] / 1e9:,.1f}", f"{each['sent_bytes'] / 1e9:,.1f}"]
            if each["fits"]:
                cells += [f"{each['time']['step']:.3g} s", f"{each['efficiency']:.0%}"]
                cells += [f"{each[key] / 24:,.1f}" for key in ("hours", "device_hours")]
            else:
                cells += ["does not fit", "", "", ""]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def parallel_model() -> str:
    """Return a row for each measured step of several processes, with its prediction."""
    found = read("parallel-model-cpu.json")
    rows = [
        "| size | processes | measured step (range) | predicted | measured efficiency | predicted |",
        "|---|---|---|---|---|---|",
    ]
    for each in found["conditions"]:
        spread = each["seconds"]
        span = f"{spread['median']:.2f} s ({spread['min']:.2f} to {spread['max']:.2f})"
        predicted = f"{each['predicted_seconds']['step']:.2f} s"
        efficiencies = f"{each['efficiency']:.0%} | {each['predicted_efficiency']:.0%}"
        name = f"`{each['size']}` | {each['ranks']}, {each['parallel']}"
        rows.append(f"| {name} | {span} | {predicted} | {efficiencies} |")
    ratios = [each["seconds"]["median"] / each["predicted_seconds"]["step"] for each in found["conditions"]]
    count = found["conditions"][0]["seconds"]["n"]
    rows.append(
        f"\n`{found['recipe']}` with `{' '.join(found['settings'])}`, {found['device']}, one thread a "
        f"process, medians of {count} repeats. The measured step takes {min(ratios):.2f} to "
        f"{max(ratios):.2f} times the predicted one, {median(ratios):.2f} in the median. {_messages()}\n"
    )
    return "\n".join(rows)


def _messages() -> str:
    """Return how much longer gloo's messages take than those of the model."""
    found = read("collectives-cpu.json")
    times = [
        f"{each['relative_to_half_an_all_reduce'][name]:.1f} ({name}, {each['ranks']} processes)"
        for each in found["conditions"]
        for name in ("gather", "reduce-scatter")
    ]
    return f"By gloo, FSDP's messages take {', '.join(times)} times as long as half of an all-reduce."
