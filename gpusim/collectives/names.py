"""Names as NCCL spells them."""

NAMES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv")
ALGORITHMS = ("tree", "ring")
PROTOCOLS = ("LL", "LL128", "Simple")
