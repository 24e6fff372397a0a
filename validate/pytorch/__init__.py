"""PyTorch and Triton programs, each computing on the CPU and on the simulated GPU: `programs.toml` lists them for
`validate cuda-suite`, `compared.py` is what they share."""
