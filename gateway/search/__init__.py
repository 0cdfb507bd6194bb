"""Finding tools by what they do: ranking for discovery, over what the caller may see and nothing else."""
