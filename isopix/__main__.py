"""The `isopix` command and `python -m isopix`: stop signals are handled from the first moment on."""

import importlib
import os
import sys

from isopix.core.ranks import end_process, end_with_parent
from isopix.core.signals import (
    end_launched,
    errors_as_stops,
    exit_code,
    handle_stop_signals,
    ignore_stop_signals,
)


def main() -> None:
    """Run one command in a process of its own."""
    _replace_closed_streams()
    os.environ["PYTHONSAFEPATH"] = "1"  # no child process imports files of the working directory
    try:
        handle_stop_signals()
        end_with_parent()
        with errors_as_stops():
            # Imported here, as a signal must not wait for it.
            command_line = importlib.import_module("isopix.cli.main")
        command_line.main()
    except KeyboardInterrupt as stopped:  # also while an error is printed
        end_launched(stopped)
        sys.exit(exit_code(stopped))
    except SystemExit as ended:
        end_process(int(ended.code or 0))
        raise
    ignore_stop_signals()
    end_process()


def _replace_closed_streams() -> None:
    """Let streams with which the process was not started, as after `>&-`, lead to the null device."""
    # In this order they get the file descriptors 0 to 2, which no other file may have.
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null, "r" if name == "stdin" else "w"))


if __name__ == "__main__":
    main()
