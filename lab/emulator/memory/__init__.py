"""The machine's memories: loads, stores, and what is known of every byte."""
