"""Run experiments: scheduler, flow of one variant, search, comparison and repetition."""
