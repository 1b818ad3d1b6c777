"""Commands for a real stack: export, batch, check, monitor, experiment, interleave."""
