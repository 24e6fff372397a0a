"""Single instructions on a real GPU: every form the disassembler knows, with random and special operands.

Reading order: job.py and kernel.sass (the kernel around one instruction, one file with it and the recorded forms, and
its results into the test data), worker.py (runs a job on a GPU).
"""
