"""A model as others call it: its tensors by name, its arithmetic as a graph, and the files made of that."""
