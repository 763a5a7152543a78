"""What a token costs: a decode step of a model on chips, sharded in the best way, and its price."""
