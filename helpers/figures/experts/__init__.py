"""Live figures and films of chapter 8: tokens on their way to experts, and an expert layer with its exchange."""
