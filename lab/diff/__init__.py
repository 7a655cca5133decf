"""Differences between two sets of kernels in their machine code: collect, match, classify, render.

Modules that other rooms import: `collect`, `comparison`, `figures`, `gates`, `render.machine`, `render.markdown`,
`render.page`, `render.terminal`, `revision`, `settings`, `side`, `sides`.
"""
