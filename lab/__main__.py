"""`python -m lab`, and the command `lab`."""

from __future__ import annotations

from typing import NoReturn

from lab.base import interrupts
from lab.base.errors import MissingToolError
from lab.base.machine_errors import fault_of
from lab.base.terminal import write


def main() -> NoReturn:
    """Run the command line; Ctrl-C is answered from here on, while it is imported, too."""
    interrupts.end_at_once()
    try:
        from lab.cli.main import main as command_line  # noqa: PLC0415 - it takes a while
    except ImportError as error:
        if not (fault := fault_of(error)):
            raise
        write(f"error: {fault}", error=True)
        raise SystemExit(MissingToolError.exit_code) from None
    command_line()


if __name__ == "__main__":
    main()
