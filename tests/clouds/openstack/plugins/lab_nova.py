"""Nova's fake driver remembers machines in memory only: after a restart it takes those that it is asked to switch, as the database
has them."""

from nova.compute import power_state, vm_states
from nova.virt.fake import FakeDriver, FakeInstance

_off, _on = FakeDriver.power_off, FakeDriver.power_on


def _remember(driver, machine):
    if machine.uuid not in driver.instances:
        state = power_state.SHUTDOWN if machine.vm_state == vm_states.STOPPED else power_state.RUNNING
        driver.instances[machine.uuid] = FakeInstance(machine.name, state, machine.uuid)


def power_off(self, instance, *rest, **named):
    _remember(self, instance)
    return _off(self, instance, *rest, **named)


def power_on(self, context, instance, *rest, **named):
    _remember(self, instance)
    return _on(self, context, instance, *rest, **named)


FakeDriver.power_off, FakeDriver.power_on = power_off, power_on
