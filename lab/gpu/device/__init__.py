"""The GPU as the worker process uses it: buffers, launches, timers, comparison of outputs."""
