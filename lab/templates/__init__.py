"""Kernel templates: front matter, rendering, launch geometry and arguments."""
