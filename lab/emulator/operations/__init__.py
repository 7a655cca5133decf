"""Every PTX operation that the emulator knows, in NumPy."""
