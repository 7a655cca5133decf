"""One variant through each stage (build, emulate, estimate) and the record that results."""
