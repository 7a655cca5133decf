"""Facts drawn from the records: the answer, winners, effects, and the accuracy of predictions."""
