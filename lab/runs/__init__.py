"""Runs of an experiment: the scheduler, what follows for a variant, search, comparison and repetition."""
