"""What every room stands on: errors, YAML with line numbers, expressions, files and locks, worker processes."""
