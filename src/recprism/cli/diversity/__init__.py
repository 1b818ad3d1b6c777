"""Commands about diversity: audit, diversify, explain."""
