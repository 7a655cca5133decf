"""What the page shows of one variant: details, listings and findings."""
