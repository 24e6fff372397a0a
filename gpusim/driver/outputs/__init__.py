"""What launches tell: the table, pages, timelines, and saved launches that can be run again."""
