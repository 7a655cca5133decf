"""An experiment at work: the pipeline, the sweep, the search, repetition and comparison of runs."""
