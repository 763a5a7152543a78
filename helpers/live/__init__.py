"""A cost function, traced by JAX and written out as JavaScript; the controls around it on a page.

`javascript` writes each primitive as a line, `inlining`, `renaming` and `stages` make the text small, `controls` is a figure as data.
`live.js` drives a page's controls, `grids.js` their sliders. Nothing here knows a figure.
May import: helpers.show.
Tests: tests/helpers/live.
"""
