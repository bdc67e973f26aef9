"""Commands that a user can paste into a shell."""

import shlex


def command_line(*words: object) -> str:
    """`isopix` and these words, quoted where need be: command("probe", "my run") is isopix probe 'my run'."""
    return shlex.join(["isopix", *map(str, words)])
