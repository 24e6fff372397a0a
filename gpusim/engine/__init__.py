"""The compiled engine: registers as rows of 32 lanes, executors by class of micro-operation, and the SM core."""
