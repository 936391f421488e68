"""Sign-in: who asks, and what they may see."""
