"""The method at work: the demonstration, and its picture."""
