"""A model of one SM's schedulers: where the cycles of a kernel's main loop go, and how fast it runs."""
