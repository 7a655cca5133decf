"""The records of variants and runs: frozen values that models and reports read and `store/` keeps.

Modules that other rooms import: all.
"""
