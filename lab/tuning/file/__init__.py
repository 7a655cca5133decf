"""A tuning file: schema, checks, sizes, and the names that Tensile gives parameters."""
