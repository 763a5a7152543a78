"""Live figures of chapter 1: `matmul_roofline`."""
