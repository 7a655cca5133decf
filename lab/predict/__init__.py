"""Predicted performance of a kernel from its machine code: bounds, scheduler model and score."""
