"""Run the line of Python that is given: for tests of how processes begin and end."""

import sys

exec(sys.argv[1])
