"""`gpusim figures`: simulate one launch and draw everything that it has a picture of."""

from __future__ import annotations

import argparse

from gpusim.cli.parser import UserError
from gpusim.cli.run import simulate_target, target_of


def execute(options: argparse.Namespace) -> None:
    from gpusim.plot import write_all
    from gpusim.tracing.recording import TraceOptions

    result = simulate_target(target_of(options), options, TraceOptions())
    try:
        written = write_all(result, options.folder, options.kind)
    except (OSError, ValueError) as error:
        raise UserError(str(error)) from None
    for path in written:
        print(path)
