"""What is done about damage: finding all of it, and the newest state that is provably good."""
