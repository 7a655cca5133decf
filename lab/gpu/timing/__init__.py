"""How kernels are timed: batches, interleaving, cold and warm L2."""
