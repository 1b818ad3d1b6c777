"""Commands about models: train, import, recommend, evaluate, runs."""
