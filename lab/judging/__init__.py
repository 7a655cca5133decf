"""The judge of kernels that programs write: a task and a candidate to one verdict, without a GPU.

Modules that other rooms import: `judge`, `schema`, `task`, `verdict`.
"""
