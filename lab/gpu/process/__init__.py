"""The worker process that holds the GPU, the session that talks to it, and the queue of its jobs."""
