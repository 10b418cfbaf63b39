"""A provider in Python: each Node has a machine, which is the Node itself."""

from wit_world import exports
from wit_world.exports.instances import Finding_Found, Instance, Need, State
from wit_world.exports.meta import Descriptor
from wit_world.imports import log
from wit_world.imports.types import Node


class Meta(exports.Meta):
    def describe(self) -> Descriptor:
        return Descriptor(
            name="hello-python",
            version="0.1.0",
            revision="1",
            provider_id_schemes=["hello-python"],
            files=[],
            endpoints=[],
            credentials=[],
            settings=[],
            annotations=[],
            budgets=[],
            more=[],
        )

    def offers(self):
        return []

    def check(self, online: bool):
        return []


def machine(node: Node) -> Instance:
    return Instance(
        provider_id=node.provider_id or f"hello-python://{node.name}",
        instance_type="hello",
        addresses=node.addresses,
        zone="",
        region="",
        labels=[],
        state=State.RUNNING,
        more=[],
    )


class Instances(exports.Instances):
    def find(self, nodes: list[Node], need: Need):
        fields = [("nodes", str(len(nodes))), ("need", need.name.lower())]
        log.write(log.Level.INFO, "hello from Python", fields)
        return [Finding_Found(machine(node)) for node in nodes]
