"""Commands to start with: demo, data, features."""
