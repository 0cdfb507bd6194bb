"""Property tests are alike at every run: the same examples, and no deadline on a busy machine.

`pytest --hypothesis-profile default` looks at new examples.
"""

from hypothesis import settings

settings.load_profile("ci")
