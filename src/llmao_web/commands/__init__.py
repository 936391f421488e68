"""The commands of `llmao`, one file for those that belong together, imported when used."""
