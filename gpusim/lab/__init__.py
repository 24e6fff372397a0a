"""`gpusim lab`: a page on this machine to play with a GPU, to write kernels for it, and to watch them run.

`play` (experiments with sliders, what an H100 measured at their places, parameters of a GPU and what they cost),
`exercises` (what a file of them says, what decides that one is solved), `answers` (what the page is told, in a process
of its own), `page` (the page as text), `server` (who may have it). The page itself is in `static/`: `lab.html`,
`lab.css`, and JavaScript modules, of which `rules.js` computes banks, sectors and divergence and needs no server.
"""
