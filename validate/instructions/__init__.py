"""Single instructions on a real GPU: every form the disassembler knows, with random and special operands.

Reading order: encode.py (bits of an instruction, and what the disassembler makes of them), forms.py (which forms are
recorded), kernel.py (the kernel around one instruction), operands.py (what it is given), job.py (one file that holds
all of it, and its results into the test data), worker.py (runs a job on a GPU).
"""
