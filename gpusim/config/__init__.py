"""A machine: a checked tree of numbers, each with its unit in its name and its source beside it.

Read `sections.py` (one class per section: what every number means), then `h200.toml` (the reference machine
and where each number comes from), then `models.py` (the sections together, what follows from them, keys and values as
text) and `load.py` (names, inheritance, overrides, errors). On top of these `derived.py` works out peak rates and the
like, `check.py` judges a file, and `create.py` begins one and counts sources.
Adding a GPU is one more TOML file here.
"""

from gpusim.config.load import diff, load_config, shipped_names
from gpusim.config.models import GPUConfig, describe_keys

__all__ = ["GPUConfig", "describe_keys", "diff", "load_config", "shipped_names"]
