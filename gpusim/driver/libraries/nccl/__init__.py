"""NCCL (nccl.h): GPUs that communicate.

The calls move the data and take the time of `gpusim.collectives` on the node's links. What a call asks for begins when
all ranks have come to it in their streams.
"""
