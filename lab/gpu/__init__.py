"""Everything that touches PyCUDA, NVML or a profiler. Only the worker process imports PyCUDA.

Modules that other rooms import: `counters.profile`, `device.backend`, `device.describe`, `device.driver_bindings`,
`process.ahead`, `process.cards`, `process.find`, `process.hostmemory`, `process.job`, `process.localcards`,
`process.session`, `process.worker`, `timing.cache`, `timing.survey`.
"""
