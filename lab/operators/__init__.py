"""Operators: inputs, NumPy references, tolerances and operation counts, one file per operator.

Modules that other rooms import: `base`, `builtin`, `checked`, `contraction`, `declared.array_files`,
`declared.declaration`, `declared.elements`, `declared.foreign`, `declared.inputs`, `declared.judging`,
`declared.mapped`, `declared.operator`, `declared.specification`, `einsum`, `float8`, `foreign`, `gemm`, `indexed`,
`masked_softmax`, `norms`, `softmax`, `stored`, `tensors`.
"""
