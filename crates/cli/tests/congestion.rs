//! `kiln congestion`: what it says without privilege, and what is left when it is killed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where user space answers, 40 segments; where it does not, 7.
const POLICY: &str = "(def (Report (n 0)))
    (when (> User.silent_us 300000) (:= Cwnd (* 7 Flow.mss)) (report))
    (when true (:= n (+ n 1)) (report))
    (on-report true (:= Cwnd (* (sqrt 1600) Flow.mss)))";

fn kiln(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.arg("congestion").args(arguments);
    command
}

#[test]
fn the_plan_says_what_runs_where() {
    let policy = "(def (Report (a 0))) (user (b 0)) (when true (report))
        (on-report (> a 3) (:= Cwnd (* 2 Flow.mss)) (fallthrough)) (on-report true (:= b a)) (on-report true (:= a 1))";
    let output = kiln(&[policy]).output().expect("kiln runs");
    let text = String::from_utf8(output.stdout).expect("output is UTF-8");
    if output.status.code() == Some(3) {
        return println!("skipped: the kernel has no types to plan policies with");
    }
    for line in [
        "accepted: struct_ops/release, ",
        "kernel: 1 clauses at each acknowledgement\n",
        "kernel: clause 1 at each report: whole numbers only\n",
        "user space: clause 2 at each report: `b` is kept in user space\n",
        "user space: clause 3 at each report: behind a clause that runs in user space\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let output = kiln(&[policy, "--format", "json"]).output().expect("kiln runs");
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let runs: Vec<_> = plan["on_report"].as_array().expect("clauses").iter().map(|clause| &clause["runs"]).collect();
    assert_eq!(runs, ["kernel", "user space", "user space"]);
}

/// A process that is killed at the end, whatever happens.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A connection over the loopback interface that has chosen a policy, and its other end.
struct Connection {
    stream: TcpStream,
    peer: TcpStream,
    address: SocketAddr,
}

impl Connection {
    fn new(name: &str) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let stream = TcpStream::connect(address).expect("it connects");
        rustix::net::sockopt::set_tcp_congestion(&stream, name).expect("the connection takes the algorithm");
        let (peer, _) = listener.accept().expect("it is accepted");
        Connection { stream, peer, address }
    }

    /// Transfers until the window has this many segments; panics after ten seconds.
    fn transfer_until(&mut self, segments: u32) {
        let (begun, mut bytes, wanted) = (Instant::now(), vec![7; 1 << 16], format!("cwnd:{segments}"));
        loop {
            self.stream.write_all(&bytes).expect("it is sent");
            self.peer.read_exact(&mut bytes).expect("it is received");
            let port = self.address.port().to_string();
            let output = Command::new("ss").args(["-tinH", "dport", "=", &port]).output().expect("ss is there");
            let seen = String::from_utf8_lossy(&output.stdout).into_owned();
            if seen.split_whitespace().any(|word| word == wanted) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "no {wanted}: {seen}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn connections_go_on_when_user_space_is_killed() {
    let name = "kiln_killed";
    let mut command = kiln(&[POLICY, "--name", name]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("kiln runs");
    let mut child = Killed(child);
    let mut said = BufReader::new(child.0.stderr.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it says something");
    if !line.starts_with("registered as") {
        return println!("skipped: {line}");
    }
    let mut connection = Connection::new(name);
    connection.transfer_until(40);
    // SIGKILL.
    child.0.kill().expect("it is killed");
    child.0.wait().expect("it has ended");
    connection.transfer_until(7);
    let refused = Connection::new("reno");
    let error = rustix::net::sockopt::set_tcp_congestion(&refused.stream, name);
    assert!(error.is_err(), "new connections cannot choose it any more");
}
