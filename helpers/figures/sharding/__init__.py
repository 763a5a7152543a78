"""Live figures of chapter 2: `collective_films`, `sharded_matmul_costs`; `sharded_matmul_frames` is a page of its own."""
