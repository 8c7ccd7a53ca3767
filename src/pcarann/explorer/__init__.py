"""A page on which a model is explored: what it needs to know of one, and the page itself, its styles and scripts."""

from pcarann.explorer.moving import inputs_at
from pcarann.explorer.portrait import portrait

__all__ = ["inputs_at", "portrait"]
