#!/usr/bin/env python3
"""Asks the running kernel's verifier. The tests in kernel.rs write commands to its standard input, one a line, and read
one line of answer to each. Nothing is attached or pinned; programs and maps go away with this process.

  map TYPE KEY VALUE ENTRIES FLAGS         "ok", or "no ERRNO"; maps are numbered from 0 in the order created
  freeze NUMBER                            no more writes to that map from user space
  load TYPE ATTACH FLAGS LICENSE BTF_NAME HEX [KFUNC]
                                           "ok LOG", or "no LOG": the verifier's log, its lines joined by "|"

ATTACH is -1 for none; BTF_NAME is "-" or a kernel type to attach to ("typedef:btf_trace_sched_switch"). In HEX, a wide
load (0x18) whose source register is 1 or 2 names a map by its number, and a call (0x85) whose source register is 2 is of
the kernel function KFUNC.
"""
import ctypes
import os
import platform
import re
import struct
import sys

SYSCALL_NUMBER = {"x86_64": 321, "aarch64": 280}[platform.machine()]
MAP_CREATE, PROG_LOAD, MAP_FREEZE = 0, 5, 22
LIBC = ctypes.CDLL(None, use_errno=True)
LOG_BYTES = 1 << 20
LOG = ctypes.create_string_buffer(LOG_BYTES)
BTF_KINDS = {8: "typedef", 12: "func", 4: "struct"}
# Bytes that follow a BTF type record: (fixed, per member).
BTF_TAIL = {1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0), 15: (0, 12), 17: (4, 0), 19: (0, 12)}


def version_code():
    """The number of the kernel's version, which kernels before 5.0 want of a kprobe program. Ubuntu's `uname -r` hides it."""
    signature = "/proc/version_signature"
    text = open(signature).read().split()[-1] if os.path.exists(signature) else platform.release()
    major, minor, patch = map(int, (re.findall(r"\d+", text) + ["0"] * 3)[:3])
    return major << 16 | minor << 8 | min(patch, 255)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = LIBC.syscall(SYSCALL_NUMBER, command, buffer, len(attributes))
    return result, ctypes.get_errno()


def kernel_types():
    """The ids of the running kernel's types, by "kind:name"."""
    with open("/sys/kernel/btf/vmlinux", "rb") as file:
        data = file.read()
    header_length, type_offset, type_length, string_offset, _ = struct.unpack_from("<IIIII", data, 4)
    position = header_length + type_offset
    end, strings = position + type_length, header_length + string_offset
    types, number = {}, 0
    while position < end:
        name, info, _ = struct.unpack_from("<III", data, position)
        number += 1
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        if kind in BTF_KINDS:
            start = strings + name
            text = data[start : data.index(b"\0", start)].decode()
            types.setdefault(f"{BTF_KINDS[kind]}:{text}", number)
        fixed, each = BTF_TAIL.get(kind, (0, 0))
        position += 12 + fixed + each * members
    return types


VERSION_CODE = version_code()


def create_map(maps, words):
    result, error = bpf(MAP_CREATE, struct.pack("<5I", *map(int, words)).ljust(72, b"\0"))
    maps.append(result)
    return "ok" if result >= 0 else f"no {error}"


def freeze(maps, words):
    result, error = bpf(MAP_FREEZE, struct.pack("<I", maps[int(words[0])]))
    return "ok" if result >= 0 else f"no {error}"


def with_map_descriptors(code, maps):
    code = bytearray(code)
    for offset in range(0, len(code), 8):
        if code[offset] == 0x18 and code[offset + 1] >> 4 in (1, 2):
            number = struct.unpack_from("<i", code, offset + 4)[0]
            struct.pack_into("<i", code, offset + 4, maps[number])
    return bytes(code)


def with_kfunc(code, number):
    code = bytearray(code)
    for offset in range(0, len(code), 8):
        if code[offset] == 0x85 and code[offset + 1] >> 4 == 2:
            struct.pack_into("<i", code, offset + 4, number)
    return bytes(code)


def load(maps, types, words):
    program_type, attach, flags = map(int, words[:3])
    btf_id = 0
    license = ctypes.create_string_buffer(words[3].encode())
    if words[4] != "-":
        if not types:
            types.update(kernel_types())
        btf_id = types.get(words[4], 0)
    code = with_map_descriptors(bytes.fromhex(words[5]), maps)
    if len(words) > 6:
        types.update(types or kernel_types())
        code = with_kfunc(code, types.get(f"func:{words[6]}", 0))
    instructions = ctypes.create_string_buffer(code, len(code))
    attributes = struct.pack(
        "<IIQQIIQII16sIIIIQIIQII",
        *(program_type, len(code) // 8, ctypes.addressof(instructions), ctypes.addressof(license)),
        *(2, LOG_BYTES, ctypes.addressof(LOG), VERSION_CODE, flags, b"", 0, max(attach, 0)),
        *(0, 0, 0, 0, 0, 0, 0, btf_id),
    )
    LOG[0] = b"\0"
    result, error = bpf(PROG_LOAD, attributes.ljust(144, b"\0"))
    if result >= 0:
        os.close(result)
    log = LOG.value.decode(errors="replace").replace("\n", "|")
    return f"ok {log}" if result >= 0 else f"no errno={error}|{log}"


def main():
    maps, types = [], {}
    for line in sys.stdin:
        command, *words = line.split()
        if command == "map":
            answer = create_map(maps, words)
        elif command == "freeze":
            answer = freeze(maps, words)
        else:
            answer = load(maps, types, words)
        print(answer, flush=True)


main()
