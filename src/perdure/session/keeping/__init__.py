"""A session and its store: taking it, reading where it goes on, writing to it, and giving it back."""
