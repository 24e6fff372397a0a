"""CUPTI's activity interface (cupti_activity.h): profilers in the program are told what it did, in simulated time."""
