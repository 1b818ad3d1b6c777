"""The choice model: which few preferences, the same for all users, explain the items that lists took in."""
