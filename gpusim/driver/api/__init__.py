"""Entry points of the driver API, one file for each chapter of its documentation."""
