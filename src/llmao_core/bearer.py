"""The bearer a vLLM requires and LiteLLM presents: derived, never stored."""

import base64
import hmac

from .secret import Secret


def derive(salt: Secret, host: str, listen_port: int) -> Secret:
    """Return the bearer of one server; `host` is normalised (keys.host_name)."""
    message = f"llmao.vllm.api_key\n{host}\n{listen_port}"
    digest = hmac.digest(salt.reveal().encode(), message.encode(), "sha256")
    return Secret("sk-vllm-" + base64.urlsafe_b64encode(digest).decode().rstrip("="))
