"""Films of speculative decoding: drafts, the pass that checks them, what stays; a menu of draft models and a slider."""
