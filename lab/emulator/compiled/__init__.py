"""The compiled engine: turns a kernel's PTX into machine code that runs a warp as vectors of 32 lanes."""
