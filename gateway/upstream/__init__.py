"""The client side of the relay: exchanges with upstream servers, and what they are seen to show."""
