"""Commands about diversity: audit, diversify, explain, why, dials."""
