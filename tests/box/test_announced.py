"""A restart is announced while the server still runs."""

from collections.abc import Sequence

from box.install_set import Changes, apply

from .lab import Machine


def test_a_restart_is_announced_before_it_begins(machine: Machine) -> None:
    """Routes go while the server still answers; a later word would find callers cut off."""
    told = machine.folder / "told"
    machine.program(
        "supervisorctl",
        f'#!/bin/sh\necho "$*" >> {told}\n[ "$1" != reread ] || echo "vllm-one: changed"\n',
    )

    def announce(names: Sequence[str]) -> None:
        with told.open("a") as out:
            out.write(f"announced {' '.join(names)}\n")

    machine.units.mkdir()
    changes = Changes({machine.units / "vllm-one.conf": "[program:vllm-one]\n"}, (), ("one",))
    assert apply(changes, ["one"], announce)
    assert ["announced one", "update vllm-one"] == told.read_text().splitlines()[-2:]
