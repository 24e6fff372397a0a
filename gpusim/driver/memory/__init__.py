"""Memory and what is loaded into it: virtual ranges, images of modules."""
