"""The one path of a call: authenticate, join the run, resolve, verify the pin, review the flow,
decide; recorded before it leaves; forward, label, filter; recorded before it is given out.
"""

from gateway.pipeline.pipeline import Pipeline

__all__ = ["Pipeline"]
