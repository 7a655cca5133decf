"""Runs on several hosts: Dask distributed schedules, and lab's own processes do the work on each host.

Modules that other rooms import: `cluster_services`, `config`, `node`, `security`.
"""
