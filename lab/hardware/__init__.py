"""What is known of GPUs: the table of products, occupancy, shared-memory and sector rules, latencies."""
