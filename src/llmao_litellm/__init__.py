"""llmao_litellm"""
