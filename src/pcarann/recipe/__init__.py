"""`auto`: every option chosen by validation, within a budget."""
