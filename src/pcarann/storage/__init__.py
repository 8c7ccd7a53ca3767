"""A model as one file, and back."""
