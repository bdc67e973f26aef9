"""The `isopix` command and `python -m isopix`: stop signals are handled from the first moment on."""

import importlib
import sys

from isopix.cli.output import replace_closed_streams
from isopix.core.ranks import end_process
from isopix.core.signals import errors_as_stops, exit_code, handle_stop_signals, ignore_stop_signals


def main() -> None:
    """Run one command in a process of its own."""
    replace_closed_streams()
    try:
        handle_stop_signals()
        with errors_as_stops():
            # Imported here, as a signal must not wait for it.
            command_line = importlib.import_module("isopix.cli.main")
    except KeyboardInterrupt as stopped:
        sys.exit(exit_code(stopped))
    command_line.main()
    ignore_stop_signals()
    end_process()


if __name__ == "__main__":
    main()
