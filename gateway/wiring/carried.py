"""What outlives a reload although it is only in memory."""

from gateway.builtin.mailboxes import Mailboxes
from gateway.domain._value import value
from gateway.pipeline.conversations import Conversations
from gateway.pipeline.limits import CallLimits
from gateway.pipeline.memory import ProvenanceMemory


@value
class Carried:
    """What outlives a reload although it is only in memory: what runs have seen, what is open."""

    memory: ProvenanceMemory
    conversations: Conversations
    limits: CallLimits
    boxes: Mailboxes
