"""`lab tune`: build the kernels of a tuning file, time them, and write a library and a report."""
