"""Records to pages: HTML, PNG, CSV and JSON. The report reads the store and never runs anything."""
