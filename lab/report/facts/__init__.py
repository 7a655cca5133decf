"""What the records say: the answer, winners, effects, and where prediction and measurement part."""
