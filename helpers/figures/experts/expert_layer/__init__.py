"""A layer of experts on hosts, racks or slices: what its products, its weights and its exchange take, and whether the exchange hides."""
