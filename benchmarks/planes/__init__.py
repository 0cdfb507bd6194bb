"""What a decision costs whoever asks for it from outside."""
