"""llmao_runpod"""
