"""Measurements: times with their statistics, and hardware counters.

Modules that other rooms import: all.
"""
