"""The columns of a run, each defined once for the CSV, the JSON, the page's table and the charts."""
