"""Pictures of fields and predictions, on grids and meshes: drawn alike, and saved alike."""

from pcarann.drawing.fields import draw_field
from pcarann.drawing.layout import Place
from pcarann.drawing.predictions import draw_prediction
from pcarann.drawing.style import BLUE, DARK, GREEN, GREY, ORANGE, PURPLE, RED, SKY, blank, save, style
from pcarann.drawing.trust import draw_trust

__all__ = [
    "BLUE",
    "DARK",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
    "RED",
    "SKY",
    "Place",
    "blank",
    "draw_field",
    "draw_prediction",
    "draw_trust",
    "save",
    "style",
]
