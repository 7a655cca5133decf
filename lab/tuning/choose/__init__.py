"""The tuning protocol's decisions: Tensile's seven steps, halving, and the census of loops."""
