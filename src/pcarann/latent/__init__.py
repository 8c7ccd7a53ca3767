"""Fields and their latents: PCA, channels, smoothing, units, and the weights that latents carry."""
