"""`lab tune`: build the kernels of a tuning file, time them, and write a library and a report.

Modules that other rooms import: `file.load`, `file.size_lists`, `file.tuning_schema`, `library_check`, `run`,
`watched`.
"""
