"""Progress of a long command: on the terminal, in a log, and on a page of this machine."""
