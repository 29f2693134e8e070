"""Tests of the module kiln_ebpf."""

import ast
import inspect
import pathlib
import threading

import kiln_ebpf
import pytest

OBJECT = pathlib.Path(__file__).with_name("module.bpf.o")
PACKET = bytes(range(64))


@pytest.fixture
def module():
    return kiln_ebpf.Object(OBJECT)


def test_names(module):
    assert {"pass", "mark", "signal"} <= set(module.programs)
    assert {"table", "per_cpu", ".rodata"} <= set(module.maps)
    program = module.program("pass")
    assert (program.name, program.type_name) == ("pass", "xdp")
    table = module.map("table")
    assert (table.name, table.type_name, table.key_size, table.max_entries) == ("table", "hash", 4, 4)
    assert "pass" in repr(module) and "xdp" in repr(program) and "hash" in repr(table)
    for wrong in (module.program, module.map):
        with pytest.raises(KeyError, match="tabel|there is no"):
            wrong("tabel")
    with pytest.raises(KeyError, match="did you mean table"):
        module.map("tabel")
    with pytest.raises(kiln_ebpf.InvalidInput, match="name one program"):
        module.program()


def test_bytes_and_text_are_objects_too():
    assert kiln_ebpf.Object(OBJECT.read_bytes()).program("pass").run(PACKET).value == 2
    text = kiln_ebpf.Object(b"; program xdp name three\n r0 = 3\n exit\n")
    assert text.program().run(PACKET).action == "XDP_TX"


@pytest.mark.parametrize("interpret", [False, True])
def test_constants_and_globals(interpret):
    settings = {"tiny": -8, "mode": "ON", "three": 5, "signed_five": -3, "name": "eth0", "mac": b"\2\0\0\0\0\1"}
    settings |= {"list": [7, 8], "pairs": [{"low": -2}, {"high": 9}], "bytes": b"\1\2", "flag": True, "wide": -(1 << 63)}
    module = kiln_ebpf.Object(OBJECT, constants={"settings": settings}, interpret=interpret)
    module.program("pass").run(PACKET)
    expected = {"tiny": -8, "flag": True, "mode": 5, "wide": -(1 << 63), "three": 5, "signed_five": -3, "name": "eth0"}
    expected |= {"mac": b"\2\0\0\0\0\1", "list": [7, 8, 0], "word": 0x201, "bytes": b"\1\2\0\0", "pointer": 0}
    expected |= {"pairs": [{"low": -2, "high": 0}, {"low": 0, "high": 9}]}
    assert module.globals["current"] == module.globals["settings"] == expected

    module.globals["current"] = {"word": 1}
    assert module.globals["current"]["bytes"] == b"\1\0\0\0" and module.globals["current"]["tiny"] == 0
    assert {"current", "settings"} <= set(module.globals) and "current" in module.globals and len(module.globals) >= 4
    with pytest.raises(kiln_ebpf.InvalidInput, match="constants="):
        module.globals["settings"] = {}
    with pytest.raises(KeyError, match="did you mean current"):
        module.globals["curent"]


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"tiny": 128}, "tiny: 128 does not fit an 8-bit integer"),
        ({"three": 8}, "three: 8 does not fit an 3-bit unsigned integer"),
        ({"list": [1, 2, 3, 4]}, "the array has 3 elements"),
        ({"list": [-1]}, "-1 does not fit"),
        ({"name": "too long a name"}, "15 bytes do not fit an array of 8"),
        ({"mode": "ONN"}, "OFF, ON, AUTO"),
        ({"nmae": 1}, "did you mean name"),
        ({"wide": 1 << 200}, "does not fit"),
        ({"wide": 1.5}, "an integer is expected, not float"),
        ({"pairs": 3}, "a list is expected"),
        ({3: 3}, "strings"),
        (3, "a dict of members is expected"),
        (b"123", "3 bytes are given"),
    ],
)
def test_values_that_do_not_fit(wrong, message):
    with pytest.raises(kiln_ebpf.InvalidInput, match=message):
        kiln_ebpf.Object(OBJECT, constants={"settings": wrong})


def test_maps_are_mappings(module):
    table = module.map("table")
    table[{"low": 1, "high": 2}] = {"tiny": 3}
    table[b"\3\0\4\0"] = {"wide": 5}
    assert len(table) == 2 and {"low": 1, "high": 2} in table and {"low": 9} not in table
    assert list(table) == table.keys() == [{"low": 1, "high": 2}, {"low": 3, "high": 4}]
    assert [value["wide"] for value in table.values()] == [0, 5]
    assert table.items()[1][1]["wide"] == 5
    assert table.raw({"low": 1, "high": 2})[0] == 3
    del table[{"low": 1, "high": 2}]
    assert table.get({"low": 1, "high": 2}) is None and table.get({"low": 1, "high": 2}, 4) == 4
    for missing in (table.__getitem__, table.__delitem__, table.raw):
        with pytest.raises(KeyError, match="no entry"):
            missing({"low": 1})
    for at in range(3):
        table[{"low": at + 10}] = {}
    with pytest.raises(kiln_ebpf.MapError, match="table"):
        table[{"low": 99}] = {}

    untyped = module.map("untyped")
    untyped[7] = bytes(range(12))
    assert untyped[7] == bytes(range(12)) and untyped.keys() == [b"\7\0\0\0"]
    with pytest.raises(kiln_ebpf.InvalidInput, match="value: bytes of length 12"):
        untyped[7] = 7

    queue = module.map("queue")
    queue.push(1), queue.push(2)
    with pytest.raises(kiln_ebpf.MapError):
        queue.push(3)
    with pytest.raises(KeyError):
        queue.drain()


def test_values_of_cpus():
    module = kiln_ebpf.Object(OBJECT, cpus=3)
    per_cpu = module.map("per_cpu")
    per_cpu[1] = 7
    assert per_cpu[1] == [7, 7, 7]
    per_cpu[1] = [1, 2, 3]
    assert per_cpu[1] == [1, 2, 3] and len(per_cpu.raw(1)) == 24 and per_cpu.values()[0] == [0, 0, 0]
    with pytest.raises(kiln_ebpf.InvalidInput, match="2 values for 3 CPUs"):
        per_cpu[1] = [1, 2]
    assert module.program("pass").run(PACKET, cpu=2).value == 2
    with pytest.raises(KeyError, match="CPU 3"):
        module.program("pass").run(PACKET, cpu=3)


def test_contexts(module):
    interface = module.program("interface")
    assert interface.run(PACKET, context={"ingress_ifindex": 1}).value == 1
    mark = module.program("mark").run(PACKET, context={"mark": 41, "cb": [6]})
    assert int.from_bytes(mark.context[8:12], "little") == 42
    assert mark.context[48:56] == (6).to_bytes(4, "little") * 2
    arguments = module.program("arguments")
    assert [arguments.run(context=words).value for words in ([0, 42], [0, 41], bytes(8) + b"*" + bytes(7))] == [1, 0, 1]
    for wrong in ({"ifindx": 1}, {"ingress_ifindex": 1 << 32}, [1 << 64], {1: 1}, 7, range(10**9), {"cb": range(10**9)}):
        with pytest.raises(kiln_ebpf.InvalidInput):
            interface.run(PACKET, context=wrong)


def test_packets(module):
    class Layers:
        def __bytes__(self):
            return PACKET

    shorten = module.program("shorten")
    for packet in (PACKET, bytearray(PACKET), memoryview(PACKET), Layers()):
        result = shorten.run(packet)
        assert result.packet == PACKET[:-4]
        assert result.redirect == {"interface": 3, "flags": 0} and result.events == [("events", 0, b"\7\0\0\0")]
    for wrong in (64, "packet", bytes(1 << 20), b""):
        with pytest.raises(kiln_ebpf.InvalidInput):
            shorten.run(wrong)
    with pytest.raises(TypeError):
        shorten.run(1.5)


def test_tail_calls(module):
    jump = module.program("jump")
    assert jump.run(PACKET).action == "XDP_ABORTED"
    module.map("jumps")[1] = "pass"
    assert jump.run(PACKET).action == "XDP_PASS"
    with pytest.raises(kiln_ebpf.InvalidInput, match="names of programs"):
        module.map("jumps")[1] = 3


def test_clock_and_random_numbers_are_what_the_test_says():
    module = kiln_ebpf.Object(OBJECT, clock_ns=1234, seed=1)
    draw = module.program("draw")

    def drawn():
        draw.run(PACKET)
        return module.globals["random_numbers"]

    first, second = drawn(), drawn()
    assert first[1] == 1234 and first[0] != second[0]
    module.set_seed(1), module.set_clock(5)
    assert drawn() == [first[0], 5]
    module.set_clock(None)
    assert drawn()[1] > 5


def test_a_long_run_is_stopped():
    for interpret in (False, True):
        module = kiln_ebpf.Object(OBJECT, step_limit=10_000, interpret=interpret)
        with pytest.raises(kiln_ebpf.Stopped, match="long_loop"):
            module.program("long_loop").run(PACKET)
        assert module.program("pass").run(PACKET).value == 2


def test_rejections_are_explained(module):
    with pytest.raises(kiln_ebpf.Rejected, match="(?s)packet-out-of-bounds.*module.bpf.c.*unsafe_read"):
        module.program("unsafe_read")
    assert module.program("pass").run(PACKET).value == 2


def test_what_the_vm_lacks_is_named(module):
    with pytest.raises(kiln_ebpf.Unsupported, match="bpf_send_signal.*bpf_override_return"):
        module.program("signal")


@pytest.mark.parametrize("source", [b"", b"\x7fELF", bytes(100), b"; program xdp\n r0 = \n", "/no/such/file"])
def test_malformed_objects(source):
    with pytest.raises(kiln_ebpf.KilnError):
        kiln_ebpf.Object(source)


def test_damaged_objects_raise_and_do_nothing_else():
    good = OBJECT.read_bytes()
    for at in range(0, len(good), 97):
        bad = bytearray(good)
        bad[at] ^= 0xFF
        try:
            module = kiln_ebpf.Object(bad, map_bytes=1 << 20)
            for name in module.maps:
                module.map(name).values() if module.map(name).max_entries < 100 else None
            list(map(module.globals.__getitem__, module.globals))
            module.program("pass").run(PACKET)
        except (kiln_ebpf.KilnError, KeyError) as error:
            assert not isinstance(error, kiln_ebpf.InternalError)


@pytest.mark.parametrize("options", [{"cpus": 0}, {"cpus": 5000}, {"map_bytes": 1}, {"kernel_types": "/no/such"}])
def test_options_that_cannot_be(options):
    with pytest.raises(kiln_ebpf.KilnError):
        kiln_ebpf.Object(OBJECT, **options)


def test_threads_run_while_one_program_does():
    module = kiln_ebpf.Object(OBJECT, cpus=2, step_limit=1 << 40)
    long_loop, quick = module.program("long_loop"), module.program("pass")
    began, ended = threading.Event(), threading.Event()

    def run():
        began.set()
        long_loop.run(PACKET, cpu=1)
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    began.wait()
    runs = 0
    while not ended.is_set():
        assert quick.run(PACKET).value == 2
        runs += 1
    thread.join()
    assert runs > 10


def test_programs_and_maps_keep_their_object():
    program, table = (lambda module: (module.program("pass"), module.map("table")))(kiln_ebpf.Object(OBJECT))
    table[b"abcd"] = {}
    assert program.run(PACKET).value == 2 and len(table) == 1


def test_the_stubs_are_those_of_the_module():
    stubs = ast.parse(pathlib.Path(__file__).with_name("kiln_ebpf.pyi").read_text())
    classes = {node.name: node for node in stubs.body if isinstance(node, ast.ClassDef)}
    assert set(classes) == {name for name in dir(kiln_ebpf) if isinstance(getattr(kiln_ebpf, name), type)}
    for name, node in classes.items():
        there = getattr(kiln_ebpf, name)
        functions = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
        public = {name for name in vars(there) if not name.startswith("_")}
        assert public == {name for name in functions if not name.startswith("_")}, name
        assert there.__doc__ and there.__doc__.startswith(ast.get_docstring(node).rstrip(".")), name
        for function in functions.values():
            method = there if function.name == "__init__" else getattr(there, function.name)
            assert method.__doc__, f"{name}.{function.name}"
            if function.decorator_list or function.name.startswith("__") and method is not there:
                continue
            arguments = function.args.args[1:] + function.args.kwonlyargs
            assert [one.arg for one in arguments] == [
                one for one in inspect.signature(method).parameters if one != "self"
            ], f"{name}.{function.name}"
