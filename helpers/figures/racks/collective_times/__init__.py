"""How long a collective takes on hosts, racks and slices, tier by tier, under every algorithm."""
