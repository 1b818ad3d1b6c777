"""Commands for a real stack: refit, export, batch, serve, check, monitors, experiment, holdout."""
