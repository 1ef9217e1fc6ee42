"""The journal beside the store: every action that ended, one JSON object a line, in files that anything can read."""
