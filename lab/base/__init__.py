"""Foundations of every room: errors, YAML with line numbers, expressions, files and locks, worker processes.

Modules that other rooms import: all.
"""
