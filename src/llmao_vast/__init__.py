"""llmao_vast"""
