"""Tuning: which kernel for which size, found by a programmable protocol of benchmarks.

The protocol is Tensile's (D. E. Tanner, "Tensile: Auto-Tuning GEMM GPU Assembly for All Problem Sizes", 2018, section
IV.C): seven steps lead from parameters and their values to kernels, and from kernels and sizes to times. `lab.tuning`
runs it; the modules here decide and remember, and touch neither a compiler nor a GPU.
"""
