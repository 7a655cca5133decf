"""The command line: arguments to one call each, and what a terminal shows."""
