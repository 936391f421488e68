"""llmao's own plugins pass the kit."""

from llmao_core.testing.kit import DeploymentsBench, ListingBench
from llmao_core.testing.kit_deployments import DeploymentsPluginTests
from llmao_core.testing.kit_listing import ListingProviderTests
from llmao_litellm.bench import LiteLLMBench
from llmao_runpod.bench import RunPodBench
from llmao_vast.bench import VastBench


class TestVast(ListingProviderTests):
    def make_bench(self) -> ListingBench:
        return VastBench()


class TestRunPod(ListingProviderTests):
    def make_bench(self) -> ListingBench:
        return RunPodBench()


class TestLiteLLM(DeploymentsPluginTests):
    def make_bench(self) -> DeploymentsBench:
        return LiteLLMBench()
