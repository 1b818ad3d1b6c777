"""Commands to start with: demo, doctor, data, features."""
