"""What a kernel would reach, predicted from its machine code: bounds, and the model of the schedulers."""
