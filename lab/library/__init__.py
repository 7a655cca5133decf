"""Libraries of kernels: build them from times at many sizes, pick the fastest kernel and launch it.

The idea is Tensile's (D. E. Tanner, "Tensile: Auto-Tuning GEMM GPU Assembly for All Problem Sizes", 2018, section D):
exact sizes map to their fastest kernel, all others go through thresholds of m, n and k found by recursive splitting.

Modules that other rooms import: `alignment`, `archive`, `batch_expressions`, `call_factors`, `calls`, `checked_sizes`,
`dispatch`, `emit`, `expected`, `grid`, `interpolation`, `package`, `picking`, `specialise`, `tree`.
"""
