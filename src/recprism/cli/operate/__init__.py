"""Commands for a real stack: export, batch, serve, check, monitor, experiment, interleave."""
