"""recprism: what diversity would cost your recommender, who would pay, and which factors drive it."""
