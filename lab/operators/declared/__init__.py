"""Declared operators of short experiment files: arguments, reference and metrics as text, without Python.

`specification` reads one argument, `declaration` holds what a file declares and travels between processes as JSON,
`inputs` fills arrays, `tracked` and the modules above it evaluate references with bounds on their rounding errors,
`judging` compares, and `operator` combines them into the operator.
"""
