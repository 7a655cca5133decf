"""Facts drawn from the records: the answer, winners, effects, and how far predictions hold."""
