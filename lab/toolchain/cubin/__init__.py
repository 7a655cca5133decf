"""Cubins: their ELF image, line table, resource usage, and several merged into one."""
