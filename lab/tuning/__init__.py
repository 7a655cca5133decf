"""`lab tune`: from a tuning file to kernels, times, a library and a report."""
