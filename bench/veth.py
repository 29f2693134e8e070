"""Two network namespaces with a veth between them, for benchmarks of servers."""

import os
import pathlib
import subprocess

LIMIT = 120


def call(*words, **more):
    return subprocess.run(words, check=True, timeout=LIMIT, **more)


def threads(names):
    """Ids of kernel threads whose names begin so."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "comm").read_text().startswith(names):
                found.append(entry.name)
        except OSError:
            continue
    return found


def nanoseconds(process):
    """Of a CPU, that all threads of a process have had."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{process}/task").iterdir())


class Net:
    """A server's namespace and a client's: the server's NAPI thread is on CPU 0, and the client's, if `both`, on CPU 1."""

    def __init__(self, interfaces, addresses, both=False):
        self.interfaces, self.addresses, self.both = interfaces, addresses, both
        self.names = [f"{interface}-{os.getpid()}" for interface in interfaces]

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def make(self):
        server, client = self.names
        for name in self.names:
            call("ip", "netns", "add", name)
        call("ip", "-n", server, "link", "add", self.interfaces[0], "type", "veth", "peer", "name", self.interfaces[1], "netns",
             client)
        for name, interface, address in zip(self.names, self.interfaces, self.addresses):
            call("ip", "-n", name, "address", "add", f"{address}/24", "dev", interface)
            call("ip", "-n", name, "link", "set", interface, "up")
            call("ip", "-n", name, "link", "set", "lo", "up")
            # The wire carries each packet by itself, whatever a sender hands over at a time.
            for feature in [("gro", "on"), ("tso", "off"), ("tx-udp-segmentation", "off")]:
                call("ip", "netns", "exec", name, "ethtool", "-K", interface, *feature)
        for cpu, (name, interface) in enumerate(zip(self.names, self.interfaces)):
            if cpu == 0 or self.both:
                call("ip", "netns", "exec", name, "sh", "-c", f"echo 1 > /sys/class/net/{interface}/threaded")
                for thread in threads(f"napi/{interface}-"):
                    call("taskset", "-p", "-c", str(cpu), thread, stdout=subprocess.DEVNULL)

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def words(self, side, is_pinned=True):
        """What a command in the server's (0) or the client's (1) namespace begins with."""
        return ["ip", "netns", "exec", self.names[side], *(["taskset", "-c", str(side)] if is_pinned else [])]
