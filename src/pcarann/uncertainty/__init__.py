"""How far a prediction may be trusted: conformal bands, novelty of inputs, what a fit is worth."""
