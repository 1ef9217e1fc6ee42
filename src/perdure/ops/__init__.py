"""What is done to sessions from outside, by people and programs that operate a store."""
