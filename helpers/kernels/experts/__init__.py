"""Run: routers, their balance, and layers whose attention and experts lie differently over the same chips (chapter 8)."""
