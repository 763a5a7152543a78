"""The explorer of sharded products, a page of its own: plans priced in the page, and their steps frame by frame."""
