"""What the page shows of one variant: details, listings, findings."""
