"""The product of two matrices on a chip's roofline. It has no script of its own: `helpers/live/figure_controls.js` moves its marks."""
