"""Plain kernels: CUDA files of users, without front matter."""
