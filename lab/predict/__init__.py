"""Predicted performance of a kernel from its machine code: bounds, scheduler model and score.

Modules that other rooms import: `bounds`, `chains`, `count_curves`, `gemm_loops`, `schedulers.estimate`,
`schedulers.loop`, `schedulers.simulate`, `score`, `time_estimates`, `variant_scores`, `work`.
"""
