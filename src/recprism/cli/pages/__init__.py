"""Commands that make pages: report and studio."""
