"""An experiment file: read, validated, expanded to its variants.

Modules that other rooms import: `identity`, `load`, `machine`, `model`, `problems`, `schema`, `space`, `triton_entry`,
`variants`.
"""
