"""Outputs of launches: the table, pages, timelines, and saved launches that can be run again."""
