"""Tests of limit.bpf.c in Kiln's VM: no root, no kernel, a clock that the test sets."""

import ipaddress
import pathlib
import struct

import kiln_ebpf
import pytest

OBJECT = pathlib.Path(__file__).with_name("limit.bpf.o")
SECOND = 1_000_000_000

try:
    from scapy.layers.inet import IP, TCP, UDP
    from scapy.layers.l2 import Ether

    def packet(source, protocol=17):
        return Ether() / IP(src=source, dst="192.0.2.1") / (UDP() if protocol == 17 else TCP())

except ImportError:

    def packet(source, protocol=17):
        addresses = ipaddress.ip_address(source).packed + ipaddress.ip_address("192.0.2.1").packed
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 28, 0, 0, 64, protocol, 0) + addresses
        return bytes(12) + b"\x08\x00" + ip + bytes(8)


def key(address):
    """A map's key of an address: `__be32`, so the bytes as they are on the wire."""
    return ipaddress.ip_address(address).packed


@pytest.fixture
def limiter():
    return kiln_ebpf.Object(OBJECT, constants={"limit": 2, "period_ns": SECOND}, clock_ns=5 * SECOND)


def test_a_sender_over_the_limit_is_dropped(limiter):
    program = limiter.program("limit_senders")
    results = [program.run(packet("10.0.0.1")) for _ in range(4)]
    assert [result.action for result in results] == ["XDP_PASS", "XDP_PASS", "XDP_DROP", "XDP_DROP"]
    assert program.run(packet("10.0.0.2")).action == "XDP_PASS"

    sender = limiter.map("senders")[key("10.0.0.1")]
    assert sender == {"period_start_ns": 5 * SECOND, "packets": 4, "last": 1}
    assert limiter.globals["drops"] == 2
    assert "dropped packet 4" in results[-1].trace


def test_a_new_period_begins_with_the_clock(limiter):
    program = limiter.program()
    assert [program.run(packet("10.0.0.1")).action for _ in range(3)][-1] == "XDP_DROP"
    limiter.set_clock(6 * SECOND)
    assert program.run(packet("10.0.0.1")).action == "XDP_PASS"


def test_drops_are_told_of(limiter):
    program = limiter.program()
    for _ in range(3):
        program.run(packet("10.0.0.9"))
    (record,) = limiter.map("dropped").drain()
    assert struct.unpack("=4sI", record) == (key("10.0.0.9"), 3)
    assert limiter.map("dropped").drain() == []


def test_who_is_known_goes_on_counting(limiter):
    limiter.map("senders")[key("10.0.0.1")] = {"period_start_ns": 5 * SECOND, "packets": 2}
    assert limiter.program().run(packet("10.0.0.1")).action == "XDP_DROP"


@pytest.mark.parametrize("source, action", [("10.1.2.3", "XDP_PASS"), ("10.2.0.1", "XDP_DROP")])
def test_trusted_networks_have_no_limit(limiter, source, action):
    limiter.map("trusted")["10.1.0.0/16"] = 1
    program = limiter.program()
    assert [program.run(packet(source)).action for _ in range(3)][-1] == action


def test_other_packets_pass_unchanged(limiter):
    program = limiter.program()
    for other in (packet("10.0.0.1", protocol=6), bytes(14), bytes(60)):
        result = program.run(other)
        assert (result.action, result.packet) == ("XDP_PASS", bytes(other))
    assert len(limiter.map("senders")) == 0
