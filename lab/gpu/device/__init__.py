"""A GPU as a worker process uses it: buffers, launches, comparison of outputs."""
