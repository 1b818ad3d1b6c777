"""Commands about models: train, import, recommend, evaluate, evaluate-lists, runs."""
