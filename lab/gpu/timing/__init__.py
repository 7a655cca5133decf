"""How kernels are timed: cold or warm, in batches, interleaved with baselines."""
