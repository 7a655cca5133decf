"""`lab calibrate`: the microbenchmarks on the GPU that is there, and the constants that follow from their times."""
