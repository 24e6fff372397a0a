"""Texts of single instructions: learn.py makes the templates of `isa/encodings/` from what nvdisasm says."""
