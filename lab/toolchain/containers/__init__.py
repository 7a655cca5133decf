"""Device code inside of other files: libraries, fat binaries, wheels, caches."""
