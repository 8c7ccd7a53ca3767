"""Stages that see space: corrections of a prediction at every point of a grid, in closed form."""
