"""Past the paper: the best models and what each of their options is worth."""
