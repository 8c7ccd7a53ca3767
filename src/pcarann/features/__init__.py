"""h(x): random layers or a kernel on weighted latents, and how their scales and lengths are chosen."""
