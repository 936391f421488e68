"""llmao_core"""
