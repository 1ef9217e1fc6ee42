"""One session: what an agent's code sees, and the logic that makes resuming exact."""
