"""Command lines that can be pasted into a shell."""

import shlex


def command_line(*words: object) -> str:
    """Return `isopix` and these words, quoted for a shell: isopix probe 'my run'."""
    return shlex.join(["isopix", *map(str, words)])
