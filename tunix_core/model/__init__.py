"""The shared base model and the adapters stacked on it."""
