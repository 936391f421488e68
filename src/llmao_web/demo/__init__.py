"""A simulated fleet for `llmao demo`: boxes, their providers, LiteLLM, and a story told with them.

Rule of this package: everything speaks the real HTTP over loopback, so that llmao in front cannot
tell it from a fleet. `fleet` says what there is, `world` runs it, `story` breaks and mends it.
"""
