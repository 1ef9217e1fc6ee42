"""What changed in a state, how it is kept, and how it comes back: comparison, deltas and keyframes. No I/O."""
