# NIXL: one agent writes into and reads from the memory of another. Every byte is compared.
import sys

try:
    import nixl._api as api
except ImportError:
    import nixl_cu12._api as api
import numpy

BYTES = 1 << 20


def finish(agent, operation, local, remote, peer):
    handle = agent.initialize_xfer(operation, local, remote, peer)
    state = agent.transfer(handle)
    while state == "PROC":
        state = agent.check_xfer_state(handle)
    if state != "DONE":
        sys.exit(f"{operation}: state {state}")
    agent.release_xfer_handle(handle)


def main():
    agents = [api.nixl_agent(name, api.nixl_agent_config(backends=["UCX"])) for name in ("here", "there")]
    here, there = agents
    arrays = [[numpy.zeros(BYTES, dtype=numpy.uint8) for _ in range(2)] for _ in agents]
    lists = []
    for agent, own in zip(agents, arrays):
        rows = [(array.ctypes.data, BYTES, 0, "") for array in own]
        if agent.register_memory(rows, "DRAM") is None:
            sys.exit("the memory was not registered")
        lists.append(agent.get_xfer_descs([row[:3] for row in rows], "DRAM"))
    here.add_remote_agent(there.get_agent_metadata())
    there.add_remote_agent(here.get_agent_metadata())
    for operation, source, target in (("WRITE", 0, 1), ("READ", 1, 0)):
        for number, array in enumerate(arrays[source]):
            array[:] = (numpy.arange(BYTES) * (7 + number + source)) % 251
        for array in arrays[target]:
            array[:] = 0
        finish(here, operation, lists[0], lists[1], "there")
        for left, right in zip(arrays[source], arrays[target]):
            if not numpy.array_equal(left, right):
                sys.exit(f"{operation}: data mismatch")
        print(operation, "compared", 2 * BYTES, "bytes")


main()
