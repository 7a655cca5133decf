"""The PTX reader."""
