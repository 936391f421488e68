"""llmao_web"""
