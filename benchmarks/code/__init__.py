"""What running programs costs, and whether one gets out."""
