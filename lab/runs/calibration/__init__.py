"""`lab calibrate`: run the microbenchmarks on this machine's GPU and derive constants from their times."""
