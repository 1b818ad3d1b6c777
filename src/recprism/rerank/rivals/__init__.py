"""Re-rankers from the literature: rivals and baselines, one a file."""
