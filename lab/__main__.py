"""`python -m lab`, and the command `lab`."""

from __future__ import annotations

from typing import NoReturn

from lab.base import interrupts


def main() -> NoReturn:
    """Run the command line; Ctrl-C is answered from here on, while it is imported, too."""
    interrupts.end_at_once()
    from lab.cli.main import main as command_line  # noqa: PLC0415 - it takes a while

    command_line()


if __name__ == "__main__":
    main()
