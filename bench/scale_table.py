"""The table of docs/scale.md: training in several processes."""

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
