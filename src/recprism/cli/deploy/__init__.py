"""Commands for a real stack: export, check, monitor, experiment, interleave."""
