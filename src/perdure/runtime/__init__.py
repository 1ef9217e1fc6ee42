"""Running agents: entry points, the runner, and the store as its users see it."""
