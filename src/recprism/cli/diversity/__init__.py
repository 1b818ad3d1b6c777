"""Commands about diversity: audit, diversify, explain, why, explain-lists, dials, steer."""
