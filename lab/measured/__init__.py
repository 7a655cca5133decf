"""Measurements: times with their statistics, and hardware counters."""
