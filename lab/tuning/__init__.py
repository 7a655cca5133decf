"""The protocol at work: `tune` takes a tuning file to kernels, times, a library and a report."""

from lab.tuning.run import Options, Outcome, tune

__all__ = ["Options", "Outcome", "tune"]
