"""`isopix doctor`: check the installation, the device, memory and disks."""

from isopix.api import machine
from isopix.cli.console import Device, Json, say, show_json, show_table


def doctor(*, device: Device = "auto", json: Json = False) -> None:
    """Check versions, device, memory, disks and the cache folder, and train a tiny network for a few seconds.

    Prints what to do about each problem. Exits with code 1 if a check fails.

    Example: isopix doctor
    """
    found = machine.doctor(device=device)
    if json:
        show_json(found.record)
    else:
        show_table("isopix doctor", ["check", "status", "found"], [each[:3] for each in found.checks])
        for each in found.checks:
            if each.action:
                say(f"{each.name}: {each.action}")
    if found.failed:
        raise RuntimeError(f"broken: {', '.join(each.name for each in found.failed)}")
