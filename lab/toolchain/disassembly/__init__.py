"""nvdisasm: its calls, its listings and the checks on them."""
