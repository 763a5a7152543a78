"""The product of two matrices on a chip's roofline; `figure_controls.js` moves its marks."""
