"""Run: collectives and a training step on a mesh of two tiers, hosts and the chips in them (chapter 7)."""
