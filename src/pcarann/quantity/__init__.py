"""Quantities of interest: functionals of predicted fields, with spread, intervals and gradients of their own."""
