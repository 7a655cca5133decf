"""Search strategies for the fastest point of a space: they propose what to measure next, and measure nothing.

Modules that other rooms import: `problem_searches`, `pruning`.
"""
