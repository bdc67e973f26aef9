"""Convert runs that isopix 0.2.0.dev0 wrote to the format of this version; weights stay the same.

python bench/convert_runs.py isopix/shipped/* runs/photos
"""

import argparse
import json
from pathlib import Path
from typing import Any

from isopix.core.config import from_dict, to_dict
from isopix.runs.state import RunEnvironment, State, write_environment
from isopix.storage.checkpoint import FORMAT, MANIFEST
from isopix.storage.provenance import sha256_of
from isopix.storage.run_folder import RunFolder

Values = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    for run in parser.parse_args().runs:
        for manifest in sorted(run.glob(f"**/{MANIFEST}")):
            if read(manifest)["format"] < FORMAT:
                convert_checkpoint(manifest.parent)
                print(f"converted {manifest.parent}")
        for file in sorted(run.glob("**/environment.json")):
            if not (file.parent / MANIFEST).is_file():
                convert_environment(RunFolder(file.parent))


def convert_checkpoint(folder: Path) -> None:
    """Write its state with all values of this version, and the manifest."""
    state, imported = read(folder / "state.json"), (folder / "imported.json").is_file()
    unknown: Values = {"labels_seen": None, "seen_known": False} if imported else {}
    typed = to_dict(from_dict(State, unknown | state))
    (folder / "state.json").write_text(json.dumps(typed, indent=2) + "\n")
    manifest = read(folder / MANIFEST)
    for name, entry in manifest["files"].items():
        if name == "state.json":
            entry["size"], entry["sha256"] = (folder / name).stat().st_size, sha256_of(folder / name)
        elif sha256_of(folder / name) != entry["sha256"]:
            raise ValueError(f"{folder / name} does not have the sha256 of the manifest: changed")
    (folder / MANIFEST).write_text(json.dumps({**manifest, "format": FORMAT}, indent=2) + "\n")


def convert_environment(run: RunFolder) -> None:
    """Write the environment of a run with the names of this version."""
    values = read(run.environment)
    if "palette" in values:
        values["codec"] = {"palette": values.pop("palette")}
    write_environment(run, from_dict(RunEnvironment, values))


def read(path: Path) -> Values:
    values: Values = json.loads(path.read_text())
    return values


if __name__ == "__main__":
    main()
