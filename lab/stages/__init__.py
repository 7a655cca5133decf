"""One variant through each stage (build, emulate, estimate) and the record that results.

Modules that other rooms import: `batches`, `build`, `emulate`, `estimate`, `executed`, `full_size`, `memory`,
`provenance`, `record`, `run_facts`, `sequence`.
"""
