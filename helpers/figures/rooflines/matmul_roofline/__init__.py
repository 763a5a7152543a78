"""The product of two matrices on a chip's roofline; `live.js` moves its marks."""
