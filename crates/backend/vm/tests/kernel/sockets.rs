//! Lookups of sockets: the VM with a list of the sockets that this process has, and the kernel, which has them.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use kiln_linux::TestInput;
use kiln_vm::{Engine, Input, Options, Socket, Surroundings, Vm};

/// Offsets of words of `struct bpf_sock`: device, family, type, protocol, ports, state. The VM's sockets have no receive
/// queue; in the kernel, the device says which one.
const FIELDS: [u32; 7] = [0, 4, 8, 12, 44, 48, 72];
/// Words of both addresses. What the kernel has in those of the other family is its own affair.
const IPV4: &[u32] = &[24, 52];
const IPV6: &[u32] = &[28, 40, 56, 68];
const NONE: u32 = 99;

/// A program that looks up a socket by a tuple in the packet, and returns a number made of its fields, or 99.
fn program(call: &str, bytes: usize, flags: u32) -> String {
    let addresses = if bytes == 36 { IPV6 } else { IPV4 };
    let fields = FIELDS.iter().chain(addresses).map(|at| {
        let width = if *at == 48 { "u16" } else { "u32" };
        format!("r7 *= 31\nr1 = *({width} *)(r0 + {at})\nr7 += r1\n")
    });
    // What `skc_lookup_tcp` finds may be less than a socket.
    let (cast, less) = match call {
        "skc_lookup_tcp" => {
            ("r1 = r0\nr6 = r0\ncall sk_fullsock\nif r0 == 0 goto less\n", "less:\nr1 = r6\ncall sk_release\n")
        }
        _ => ("r6 = r0\n", ""),
    };
    format!(
        "; license GPL\n; program sched_cls name p
         r6 = r1\nr2 = 0\nr3 = r10\nr3 += -40\nr4 = 36\ncall skb_load_bytes
         r1 = r6\nr2 = r10\nr2 += -40\nr3 = {bytes}\nr4 = -1\nr5 = {flags}\ncall {call}
         if r0 == 0 goto none
         {cast}r7 = 0\n{}
         r1 = r6\ncall sk_release\nr0 = r7\nexit
         {less}none:\nr0 = {NONE}\nexit",
        fields.collect::<String>()
    )
}

/// The bytes of a `struct bpf_sock_tuple`.
fn tuple(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let address = |address: SocketAddr| match address {
        SocketAddr::V4(address) => address.ip().octets().to_vec(),
        SocketAddr::V6(address) => address.ip().octets().to_vec(),
    };
    [address(from), address(to), from.port().to_be_bytes().to_vec(), to.port().to_be_bytes().to_vec()].concat()
}

#[test]
fn lookups_agree() {
    let listens = |address: &str| TcpListener::bind(address).expect("a socket");
    let takes = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let (here, anywhere, six) = (listens("127.0.0.1:0"), listens("0.0.0.0:0"), TcpListener::bind("[::1]:0"));
    let client = TcpStream::connect(here.local_addr().expect("bound")).expect("connects");
    let (server, _) = here.accept().expect("accepts");
    let (datagrams, one, other) = (takes(), takes(), takes());
    one.connect(other.local_addr().expect("bound")).expect("connects");
    let tcp = |local, remote| Socket { protocol: 6, local, remote };
    let udp = |socket: &UdpSocket| Socket {
        protocol: 17,
        local: socket.local_addr().expect("bound"),
        remote: socket.peer_addr().ok(),
    };
    let address = |listener: &TcpListener| listener.local_addr().expect("bound");
    let stream =
        |stream: &TcpStream| tcp(stream.local_addr().expect("bound"), Some(stream.peer_addr().expect("connected")));
    let mut sockets = vec![tcp(address(&anywhere), None), tcp(address(&here), None), stream(&client), stream(&server)];
    sockets.extend([udp(&datagrams), udp(&one), udp(&other)]);
    sockets.extend(six.as_ref().map(|six| tcp(address(six), None)));

    // Another sender, and addresses that nobody has.
    let nobody = SocketAddr::from(([127, 0, 0, 9], 9));
    let with = |address: SocketAddr, port: u16| SocketAddr::new(address.ip(), port);
    let mut queries = Vec::new();
    for socket in &sockets {
        let own = if socket.local.ip().is_unspecified() { with(nobody, socket.local.port()) } else { socket.local };
        let from = socket.remote.unwrap_or(with(own, 1));
        for (call, protocol) in [("sk_lookup_tcp", 6), ("skc_lookup_tcp", 6), ("sk_lookup_udp", 17)] {
            let found = socket.protocol == protocol;
            queries.push((call, 0, tuple(from, own), Some(found)));
            queries.push((call, 0, tuple(with(own, 2), own), None));
            queries.push((call, 0, tuple(own, with(own, 1)), Some(false)));
            queries.push((call, 1, tuple(from, own), Some(false)));
        }
    }
    queries.push(("sk_lookup_tcp", 0, tuple(nobody, address(&here))[..11].to_vec(), Some(false)));

    let (kernel, mut found) = (crate::kernel(), 0);
    for (call, flags, tuple, expected) in queries {
        let object = kiln_program::text::parse(&program(call, tuple.len(), flags)).expect("it parses");
        let surroundings = Surroundings { sockets: sockets.clone(), ..Surroundings::default() };
        let mut vm = Vm::new(&object, Options { surroundings, ..Options::default() }).expect("a VM");
        vm.load("p").unwrap_or_else(|error| panic!("{error}"));
        let mut packet = tuple.clone();
        packet.resize(64, 0);
        let values = [Engine::Interpreter, Engine::Jit].map(|engine| {
            let ran = vm.run("p", &Input::packet(&packet), engine).expect("a run");
            assert_eq!(ran.output.unreleased, 0);
            ran.value as u32
        });
        assert_eq!(values[0], values[1], "both engines: {call} {tuple:?}");
        assert!(expected.is_none_or(|found| found == (values[0] != NONE)), "{call} {flags} {tuple:?}: {values:?}");
        found += u32::from(values[0] != NONE);
        if kernel {
            let loaded =
                kiln_linux::load_image(&object, &object.programs[0]).unwrap_or_else(|error| panic!("{error:?}"));
            let ran = loaded.prog.test_run(&TestInput { packet, ..TestInput::default() }).expect("a run");
            assert_eq!(ran.value, values[0], "the kernel and the VM: {call} {flags} {tuple:?}");
        }
    }
    assert!(found >= 10, "{found} found");
}
