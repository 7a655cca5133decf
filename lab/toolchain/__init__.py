"""Compilers behind one interface, the disassembler, and a cache of their output.

Modules that other rooms import: `base`, `cache`, `containers.images`, `cubin.debug_lines`, `cubin.image`,
`disassembly.nvdisasm`, `elsewhere`, `includes`, `locate`, `nvcc`, `nvrtc.compiler`, `nvrtc.headers`, `nvrtc.standard`,
`options`, `own`, `project`, `ptx`, `select`, `symbols`, `triton.compiler`, `triton.imports`, `triton.source`.
"""
