"""The machine's memories: loads, stores, and the shadow state of every byte."""
