"""Plans of a sharded product, priced in the page: the figure of chapter 2."""
