"""Hardware counters, read with Nsight Compute."""
