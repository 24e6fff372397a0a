"""The management library, and what it exports."""

from gpusim.driver.exports import Library, provide
from gpusim.driver.libraries.management import api_management  # noqa: F401 - it declares the functions

provide(Library("libnvidia-ml.so.1", __package__))
