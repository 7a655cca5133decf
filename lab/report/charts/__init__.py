"""Charts: their data, the interactive page and the PNGs."""
