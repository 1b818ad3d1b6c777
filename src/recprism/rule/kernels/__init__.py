"""Compiled re-ranking kernels. They need numpy and numba only."""
