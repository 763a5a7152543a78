"""A cost function, traced by JAX and written out as JavaScript; the controls around it on a page.

`jaxpr_to_javascript` writes each primitive as a line, `inlining`, `renaming` and `stages` make the text small, `controls` is a
figure as data. `figure_controls.js` drives a page's controls, `grids.js` their sliders. Nothing here knows a figure.
May import: helpers.show.
Tests: tests/helpers/live.
"""
