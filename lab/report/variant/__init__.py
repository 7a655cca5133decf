"""The page's view of one variant: details, listings and findings."""
