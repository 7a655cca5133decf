"""The PTX operations supported by the emulator, in NumPy."""
