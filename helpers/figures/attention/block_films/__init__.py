"""Films of attention block by block: the order in which Flash visits scores, the hops of a ring."""
