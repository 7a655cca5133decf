"""Everything that touches PyCUDA, NVML or a profiler. Only the worker process imports PyCUDA."""
