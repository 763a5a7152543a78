"""Films of collectives on four devices: the frames of `costs.sharding.collective_steps`, a menu and a slider."""
