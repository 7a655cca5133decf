"""Advice on performance: rules that name the cause of lost time, its line, its remedy and the predicted gain.

Modules that other rooms import: `advise`, `contrast`, `edits`, `evidence`, `finding`.
"""
