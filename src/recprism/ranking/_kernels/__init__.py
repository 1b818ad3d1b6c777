"""Compiled top-k kernels. They need numpy and numba only."""
