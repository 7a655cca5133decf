"""What the tuning protocol decides: Tensile's seven steps, halving, and the census of loops."""
