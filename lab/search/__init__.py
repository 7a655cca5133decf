"""Searches of a space for its fastest point: what to try next, given what was measured. It measures nothing itself."""
