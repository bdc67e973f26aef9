"""What the project's files say of supported versions and extras is the same, and what workflows test."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))  # not in the source distribution
INSTALL = (ROOT / "docs" / "install.md").read_text()
PREFIX = "Programming Language :: Python :: 3."
PYTHONS = [each.removeprefix(PREFIX) for each in PROJECT["classifiers"] if each.startswith(PREFIX)]
PINNED = re.compile(r"- uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def test_the_workflow_tests_every_supported_python() -> None:
    if not WORKFLOWS:
        pytest.skip("the workflows of a checkout are compared")
    jobs = YAML(typ="safe").load(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]
    included = jobs["versions"]["strategy"]["matrix"]["include"]
    tested = [(each["python"], each["versions"]) for each in included]
    newest = [(f"3.{minor}", "newest") for minor in PYTHONS]
    assert tested == [(f"3.{PYTHONS[0]}", "lowest"), *newest]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_pin_their_actions_and_may_read_or_publish(workflow: Path) -> None:
    uses = [line.strip() for line in workflow.read_text().splitlines() if "uses:" in line]
    assert [line for line in uses if not PINNED.fullmatch(line)] == []
    found = YAML(typ="safe").load(workflow)
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        writes = job.get("permissions", {})  # only where no code of a checkout runs
        assert writes in ({}, {"pages": "write", "id-token": "write"})
        checkouts = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        assert [step["with"]["persist-credentials"] for step in checkouts] == ([] if writes else [False])


def test_the_page_on_installing_lists_every_extra_with_its_packages() -> None:
    rows = re.findall(r"^\| `([a-z]+)` \| .+ \| ([\w, -]+) \|$", INSTALL, re.MULTILINE)
    assert {name: packages.split(", ") for name, packages in rows} == {
        name: [Requirement(line).name for line in lines]
        for name, lines in PROJECT["optional-dependencies"].items()
    }


def test_the_page_on_installing_has_the_versions_of_the_metadata() -> None:
    torch = next(each for each in map(Requirement, PROJECT["dependencies"]) if each.name == "torch")
    oldest = next(iter(torch.specifier)).version
    assert f"Python 3.{PYTHONS[0]} or newer (3.{PYTHONS[0]} to 3.{PYTHONS[-1]} are tested" in INSTALL
    assert re.search(rf"PyTorch {re.escape(oldest)} or newer \({re.escape(oldest)}, ", INSTALL)


def test_everything_that_installs_pinned_versions_takes_the_same_torch() -> None:
    pinned = re.search(r"^torch==\S+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned
    for name in ("Makefile", "Dockerfile"):
        found = set(re.findall(r"torch==[\d.]+", (ROOT / name).read_text()))
        assert found == {pinned[0]}, name
