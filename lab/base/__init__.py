"""Foundations of every room: errors, YAML with line numbers, expressions, files and locks, worker processes."""
