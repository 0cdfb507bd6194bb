"""What the review of data flow is worth: recorded tasks and attacks, replayed through the gateway."""
