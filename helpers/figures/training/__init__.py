"""Live figures of chapter 4: `layout_search`."""
