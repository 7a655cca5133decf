"""A model of an SM's warp schedulers: the cycles of a kernel's main loop by cause, and its throughput."""
