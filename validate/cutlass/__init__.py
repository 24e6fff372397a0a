"""Products by CUTLASS: `cases` says which, and on what each is launched; `h200.json` what an H200 counted, and of each
kernel its template parameters ("how"), launch and the digest of its machine code. Nothing builds them here.
"""
