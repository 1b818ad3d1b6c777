"""What live traffic shows about a budget: a test by betting on a random holdout, and what is built on it."""
