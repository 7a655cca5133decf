"""Records to pages: HTML, PNG, CSV and JSON. The report reads the store and never runs anything.

Modules that other rooms import: `analysis`, `aside`, `columns`, `page.csp`, `page.page`, `rank_correlation`, `ranking`,
`registry.run_columns`, `render`, `tuning.checked_png`, `tuning.data`, `tuning.render`.
"""
