"""The command line: arguments to one call each, and the output of a terminal.

Modules that other rooms import: `inspect`, `main`, `notebook`.
"""
