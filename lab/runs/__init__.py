"""Run experiments: scheduler, flow of one variant, search, comparison and repetition.

Modules that other rooms import: `calibration.derive`, `calibration.microbenchmarks`, `compare`, `flow`, `frame`,
`observer`, `pipeline`, `reference`, `repeat`, `sample_sizes`, `services`.
"""
