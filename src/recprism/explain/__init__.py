"""What changed, what it did, and how one knows: explanations of the difference between two sets of factors."""
