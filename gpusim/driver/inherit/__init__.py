"""A folder to put on the path of child processes; see `gpusim.cuda_driver.environment`."""
