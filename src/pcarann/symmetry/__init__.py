"""Transformations under which a problem does not change, and copies of samples under them."""
