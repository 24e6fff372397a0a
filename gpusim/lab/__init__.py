"""`gpusim lab`: a page on this machine to play with a GPU, to write kernels for it, and to watch them run.

`play` (experiments with sliders, and what an H100 measured at their places), `exercises` (what one can
write from), `machines` (parameters of a GPU and what they cost), `answers` (what the page is told of each, in a process
of its own), `page` (the page as text), `server` (who may have it). The page itself is in `static/`: `lab.html`,
`lab.css` and JavaScript modules, as they are; `rules.js` computes banks, sectors and divergence and needs no server.
"""
