"""What was observed: times with their statistics, and hardware counters."""
