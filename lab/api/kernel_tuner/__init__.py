"""Kernel Tuner's `tune_kernel` with its own arguments: porting a script changes one import."""
