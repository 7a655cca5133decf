"""GPU access in the worker process: buffers, launches, timers, comparison of outputs."""
