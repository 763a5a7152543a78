"""The explorer's own page: plans ranked, and the steps of the picked one as frames."""
