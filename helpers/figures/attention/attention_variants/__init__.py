"""What every form of attention moves, and how long it takes."""
