"""A film of the hierarchical AllReduce: what each chip of each host holds after each step, and what is sent in it."""
