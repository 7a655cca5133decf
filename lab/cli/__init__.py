"""The command line: words to one call each, and what a terminal shows."""
