"""Kernel timing: cold or warm, in batches, interleaved with baselines."""
