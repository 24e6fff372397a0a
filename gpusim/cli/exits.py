"""Exit codes, and mistakes on the command line."""

EXIT_OK, EXIT_MISMATCH, EXIT_USER_ERROR, EXIT_FAILED_POINTS, EXIT_INTERRUPTED, EXIT_BROKEN_PIPE = 0, 1, 2, 3, 130, 141


class UserError(Exception):
    """A mistake on the command line; the message is all that is printed."""
