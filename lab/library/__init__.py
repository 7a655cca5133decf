"""Library logic: from times of many kernels at many sizes to a folder that picks the fastest and launches it.

The idea is Tensile's (D. E. Tanner, "Tensile: Auto-Tuning GEMM GPU Assembly for All Problem Sizes", 2018, section D):
exact sizes map to their fastest kernel, all others go through thresholds of m, n and k found by recursive splitting.
"""
