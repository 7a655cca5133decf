"""Everything that touches PyCUDA, NVML or a profiler. Importing it imports none of them: the worker process does."""
