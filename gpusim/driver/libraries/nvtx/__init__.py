"""NVTX, by which programs name ranges of their own work: `InitializeInjectionNvtx2` and the functions behind it."""
