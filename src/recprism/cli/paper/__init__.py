"""Commands of the paper's method and its comparisons."""
