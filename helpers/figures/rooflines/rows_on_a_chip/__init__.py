"""What more rows cost a chip, as two bars. It has no script of its own: `helpers/live/figure_controls.js` moves its boxes."""
