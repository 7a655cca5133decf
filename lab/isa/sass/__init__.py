"""The SASS reader."""
