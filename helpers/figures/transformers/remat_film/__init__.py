"""A film of rematerialisation: what each layer holds at each moment of a training step."""
