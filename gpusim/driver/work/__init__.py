"""What streams and graphs do: pieces of work, how they go into streams of the device, and how time passes."""
