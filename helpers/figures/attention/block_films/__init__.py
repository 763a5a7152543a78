"""Films of attention block by block: what Flash holds and in which order it visits scores, what a ring hands on, hop by hop."""
