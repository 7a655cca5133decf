"""An MCP server, with which agents judge, run, inspect, emulate and compare kernels.

Modules that other rooms import: `commands`, `server`, `tools`.
"""
