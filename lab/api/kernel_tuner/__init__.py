"""Kernel Tuner's `tune_kernel` by its own arguments: a script changes one import."""
