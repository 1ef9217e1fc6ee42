"""The schemas of the stored form, and the code that is generated from them."""
