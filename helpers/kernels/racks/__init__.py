"""Run: collectives on a mesh of two tiers, hosts and the chips in them (chapter 7)."""
