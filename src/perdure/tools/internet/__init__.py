"""What an agent may get from the internet: pages of hosts that were allowed, and what a search finds."""
