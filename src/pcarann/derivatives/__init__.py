"""Exact derivatives of surrogates in closed form: products forward and back, Jacobians, and a torch function."""
