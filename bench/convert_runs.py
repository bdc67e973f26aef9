"""Convert runs that isopix 0.2.0.dev0 wrote to the format of this version; weights stay the same.

python bench/convert_runs.py isopix/shipped/* runs/photos
"""

import json
import sys
from pathlib import Path
from typing import Any

from isopix.core.config import from_dict, to_dict
from isopix.runs.state import RunEnvironment, State, write_environment
from isopix.storage.atomic import MANIFEST, read_json
from isopix.storage.checkpoint import FORMAT
from isopix.storage.provenance import sha256_of
from isopix.storage.run_folder import RunFolder


def main() -> None:
    for run in map(Path, sys.argv[1:]):
        for manifest in sorted(run.glob(f"**/{MANIFEST}")):
            if read_json(manifest)["format"] < FORMAT:
                convert_checkpoint(manifest.parent)
                print(f"converted {manifest.parent}")
        for file in sorted(run.glob("**/environment.json")):
            if not (file.parent / MANIFEST).is_file():
                convert_environment(RunFolder(file.parent))


def convert_checkpoint(folder: Path) -> None:
    """Write its state with all values of this version, and the manifest."""
    state, imported = read_json(folder / "state.json"), (folder / "imported.json").is_file()
    unknown: dict[str, Any] = {"labels_seen": None, "seen_known": False} if imported else {}
    typed = to_dict(from_dict(State, unknown | state))
    (folder / "state.json").write_text(json.dumps(typed, indent=2) + "\n")
    manifest = read_json(folder / MANIFEST)
    for name, entry in manifest["files"].items():
        if name == "state.json":
            entry["size"], entry["sha256"] = (folder / name).stat().st_size, sha256_of(folder / name)
        elif sha256_of(folder / name) != entry["sha256"]:
            raise ValueError(f"{folder / name} does not have the sha256 of the manifest: changed")
    (folder / MANIFEST).write_text(json.dumps({**manifest, "format": FORMAT}, indent=2) + "\n")


def convert_environment(run: RunFolder) -> None:
    """Write the environment of a run with the names of this version."""
    values = read_json(run.environment)
    if "palette" in values:
        values["codec"] = {"palette": values.pop("palette")}
    write_environment(run, from_dict(RunEnvironment, values))


if __name__ == "__main__":
    main()
