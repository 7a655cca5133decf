"""The PTX machine: executes, counts and checks kernels on NumPy, without a GPU.

Modules that other rooms import: `allowance`, `api`, `approximations`, `arguments`, `arrays`, `batch`, `errors`,
`monitor`, `program`, `results`, `state`, `waiting.clusters`.
"""
