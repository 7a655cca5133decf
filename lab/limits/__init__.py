"""GPU table, occupancy and ceilings: what a kernel can reach at most, predicted from its machine code."""
