"""V: least squares in closed form, whole, streamed, recursive, and the ridge that it takes."""
