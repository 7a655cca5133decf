"""The second engine: a kernel's PTX becomes machine code that runs a warp as vectors of 32 lanes."""
