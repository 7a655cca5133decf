"""The operator of a short experiment file: arguments, a reference and metrics as text, and no Python.

`specification` reads one argument, `declaration` holds what a file declares and travels between processes as JSON,
`inputs` fills arrays, `tracked` and the modules above it evaluate references with bounds of their rounding errors,
`judging` compares, and `operator` is the operator made of all that.
"""
