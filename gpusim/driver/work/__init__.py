"""Work of streams and graphs: its pieces, their way into streams of the device, and the passing of time."""
