"""PTX and SASS: control flow, loops, instruction classes and the mix.

Modules that other rooms import: `cfg`, `classes`, `cuda.body.limits`, `cuda.body.polynomials`, `cuda.body.statements`,
`cuda.body.symbolic_values`, `cuda.definitions`, `cuda.kernels`, `cuda.names`, `cuda.struct_declarations`,
`cuda.syntax_tree`, `cuda.tokens`, `cuda.types`, `loops`, `matrix`, `mix`, `model`, `ptx.constants`, `ptx.gridsync`,
`ptx.module`, `ptx.operands`, `ptx.signature`, `ratios`, `roles`, `sass.asides`, `sass.control`, `sass.lines`,
`sass.module`.
"""
