"""`isopix --install-completion` writes a script that completes commands and options."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.smoke.conftest import Run

ASK = 'source "$1"; COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); _isopix; printf "%s\\n" "${COMPREPLY[@]}"'


@pytest.fixture
def script(isopix: Run, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the completion of bash in a home of its own."""
    monkeypatch.setenv("HOME", str(workplace))
    code, out, err = isopix("--install-completion", "--shell", "bash")
    assert (code, err) == (0, "")
    path = workplace / ".local/share/bash-completion/completions/isopix"
    assert str(path) in out
    assert str(path) in (workplace / ".bashrc").read_text()
    return path


def test_bash_completes_commands_subcommands_options_and_choices(script: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")

    def complete(*words: str) -> set[str]:
        command = ["bash", "--norc", "-c", ASK, "bash", str(script), "isopix", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return {word.strip() for word in done.stdout.splitlines()}

    assert complete("pre") == {"pretrain"}
    assert {"doctor", "data", "probe"} <= complete("")
    assert complete("data", "sh") == {"show"}
    assert {"--temperature", "--top-k", "--top-p"} <= complete("sample", "--t")
    assert complete("complete", "runs/a", "--split", "t") == {"train", "test"}
