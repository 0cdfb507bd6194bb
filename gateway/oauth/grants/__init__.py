"""What a client can trade for a token: Authlib's grants, made strict; one file a grant."""
