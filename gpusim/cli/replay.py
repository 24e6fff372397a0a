"""`gpusim replay`: saved launches again, on any machine, without the program that made them."""

from __future__ import annotations

import argparse

from gpusim.cli.launch_options import add_table_options, add_telling_options, print_table, telling_of
from gpusim.cli.options import add_command, add_limit_options, add_mode_option, add_set_option
from gpusim.cli.parser import EXIT_OK, EXIT_USER_ERROR
from gpusim.cli.run import check_limits

EXAMPLES = """\
examples:
  gpusim replay train.launches                             the same launches, with the same times
  gpusim replay train.launches --gpu b200                  on another machine
  gpusim replay train.launches --set sm.count=66 --json
  gpusim replay train.launches --launch 40-50 --report pages

FILE is what --save of gpusim script or exec writes. Each launch finds memory as it found it when it was saved, at the
same addresses. Caches are cold before the first one. With --kernel or --launch only those launches run. Machine code
runs on GPUs of its architecture; on others what came with PTX is compiled anew.
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "run saved launches again, on any simulated GPU"
    options = add_set_option, add_limit_options, add_mode_option, add_table_options
    parser = add_command(commands, "replay", summary, EXAMPLES, execute, *options)
    parser.add_argument("file", metavar="FILE", help="what --save of gpusim script or exec has written")
    words = "shipped configuration or a TOML file (default: that of the saved launches)"
    parser.add_argument("--gpu", metavar="NAME", help=words)
    add_telling_options(parser, save=False)


def execute(options: argparse.Namespace) -> int:
    """Run the command. A kernel that fails, or in which checks find something, is a mistake."""
    from gpusim.cli.progress import announce_compilation
    from gpusim.config import load_config
    from gpusim.driver.outputs.replay import Replay
    from gpusim.driver.outputs.saved import SavedLaunches

    check_limits(options)
    telling = telling_of(options)
    with SavedLaunches(options.file) as saved:
        config = load_config(options.gpu or saved.config(), options.overrides)
        announce_compilation()
        limits = {"threads": options.threads, "max_cycles": options.max_cycles}
        with Replay(saved, config, telling, mode=options.mode, **limits) as replay:
            log = replay.run()
    if not options.no_report:
        print_table(log, options.json, options.output)
    return EXIT_USER_ERROR if log.wrong else EXIT_OK
