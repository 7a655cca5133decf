"""A long command while it works: what is known so far, on the terminal, in a log, and on a page of this machine."""
