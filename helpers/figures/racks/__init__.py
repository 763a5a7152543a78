"""The live figure of chapter 7: `collective_times`."""
