"""Rough random fields as inputs, of which no few modes are enough: three cases, and all methods on them."""
