"""NVRTC: the compiler that needs no toolkit."""
