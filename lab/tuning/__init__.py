"""`lab tune`: build the kernels of a tuning file, time them, and write a library and a report.

Modules that other rooms import: `check`, `file.load`, `file.schema`, `file.sizes`, `run`, `watched`.
"""
