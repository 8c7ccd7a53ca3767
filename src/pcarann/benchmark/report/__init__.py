"""What the records say: the headline, sentences, and one page of all of it."""
