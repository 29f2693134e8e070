//! Attached programs see what they are attached to, and stop seeing it when their link is dropped.
//!
//! Each test makes its own targets (a network namespace with a veth pair, a cgroup) and removes them, however it ends.
//! A test that is not permitted prints a skip.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use kiln_linux::attach::{XdpMode, tracefs, tracepoint_id};
use kiln_linux::{Link, LoadedImage, available, load_image};
use kiln_platform::AttachType;

/// Whether `bpf(2)` is there; says so when not.
fn allowed() -> bool {
    available().map_err(|error| eprintln!("skipped: {error}")).is_ok()
}

/// A loaded program that counts its runs in a map.
struct Counter {
    loaded: LoadedImage,
}

impl Counter {
    /// `filter` jumps to `out` for what is not to be counted; the program returns `value`.
    fn load(program_type: &str, attach_type: Option<AttachType>, filter: &str, value: u32) -> Counter {
        let text = format!(
            "; map runs array key 4 value 8 entries 1\n; program {program_type}\n{filter}
             *(u32 *)(r10 - 4) = 0
             r1 = map[runs]
             r2 = r10
             r2 += -4
             call map_lookup_elem
             if r0 == 0 goto out
             r1 = 1
             lock *(u64 *)(r0 + 0) += r1
           out:
             r0 = {value}
             exit\n"
        );
        let mut object = kiln_program::text::parse(&text).expect("the program parses");
        object.license = "GPL".to_owned();
        object.programs[0].attach_type = attach_type;
        let loaded = load_image(&object, &object.programs[0]).expect("the program loads");
        Counter { loaded }
    }

    fn runs(&self) -> u64 {
        let map = self.loaded.maps.values().next().expect("one map");
        let value = map.lookup(&0u32.to_le_bytes()).expect("reads").expect("is there");
        u64::from_le_bytes(value.try_into().expect("eight bytes"))
    }

    /// Waits until it ran this often; packets arrive a moment after they were sent.
    fn wait_for(&self, runs: u64) {
        let begun = Instant::now();
        while self.runs() < runs {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} runs instead of {runs}", self.runs());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn command(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{program} {}: {}", arguments.join(" "), reason.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A namespace joined to ours by a veth pair; both ends go with the namespace.
struct Network {
    namespace: String,
    interface: String,
}

impl Network {
    fn new(purpose: &str) -> Result<Network, String> {
        let namespace = format!("kiln-{purpose}-{}", std::process::id());
        let interface = format!("k{purpose}{}", std::process::id());
        command("ip", &["netns", "add", &namespace])?;
        // From here on the guard cleans up.
        let network = Network { namespace, interface };
        let (ours, inside) = (network.interface.as_str(), ["-n", network.namespace.as_str()]);
        let own = "02:00:00:00:00:01";
        command("ip", &["link", "add", ours, "address", own, "type", "veth", "peer", "inner", "netns", inside[1]])?;
        command("ip", &["link", "set", ours, "up"])?;
        command("ip", &[&inside[..], &["link", "set", "inner", "up"]].concat())?;
        command("ip", &[&inside[..], &["addr", "add", "192.0.2.2/24", "dev", "inner"]].concat())?;
        command("ip", &[&inside[..], &["neigh", "add", "192.0.2.1", "lladdr", own, "dev", "inner"]].concat())?;
        Ok(network)
    }

    fn index(&self) -> u32 {
        let path = format!("/sys/class/net/{}/ifindex", self.interface);
        std::fs::read_to_string(path).expect("the interface is there").trim().parse().expect("a number")
    }

    /// Sends UDP packets from inside to our end.
    fn send(&self, count: u32) {
        let script = format!("for i in $(seq {count}); do echo {count} >/dev/udp/192.0.2.1/9; done");
        command("ip", &["netns", "exec", &self.namespace, "bash", "-c", &script]).expect("packets go out");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = command("ip", &["link", "delete", &self.interface]);
        let _ = command("ip", &["netns", "delete", &self.namespace]);
    }
}

/// Leaves out what is no IPv4 UDP packet: an interface that comes up talks IPv6 by itself.
const UDP_ONLY: &str = "
    r2 = *(u32 *)(r1 + DATA)
    r3 = *(u32 *)(r1 + END)
    r4 = r2
    r4 += 34
    if r4 > r3 goto out
    r3 = *(u16 *)(r2 + 12)
    if r3 != 8 goto out
    r3 = *(u8 *)(r2 + 23)
    if r3 != 17 goto out";

fn counts_packets(network: &Network, counter: &Counter, attach: impl Fn() -> Result<Link, kiln_linux::Error>) {
    network.send(3);
    assert_eq!(counter.runs(), 0, "counted before it was attached");
    let link = attach().expect("attaches");
    network.send(5);
    counter.wait_for(5);
    drop(link);
    let before = counter.runs();
    assert_eq!(before, 5);
    network.send(4);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(counter.runs(), before, "counted after it was detached");
    // And again: detaching left room for another.
    let link = attach().expect("attaches again");
    network.send(2);
    counter.wait_for(before + 2);
    drop(link);
}

#[test]
fn xdp_on_a_veth() {
    if !allowed() {
        return;
    }
    let network = match Network::new("x") {
        Ok(network) => network,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    for mode in [XdpMode::Default, XdpMode::Generic] {
        let counter = Counter::load("xdp", None, &UDP_ONLY.replace("DATA", "0").replace("END", "4"), 2);
        let attach = || Link::xdp(&counter.loaded.prog, network.index(), mode);
        counts_packets(&network, &counter, attach);
        let first = attach().expect("attaches");
        let refused = attach().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("has an XDP program already, number "), "{refused}");
        drop(first);
    }
}

#[test]
fn tcx_on_a_veth() {
    if !allowed() {
        return;
    }
    let network = match Network::new("t") {
        Ok(network) => network,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let counter = Counter::load("sched_cls", None, &UDP_ONLY.replace("DATA", "76").replace("END", "80"), 0);
    counts_packets(&network, &counter, || Link::tcx(&counter.loaded.prog, network.index(), false));
}

/// A cgroup of our own, removed when dropped.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new() -> Result<Cgroup, String> {
        let mounts = std::fs::read_to_string("/proc/mounts").map_err(|error| error.to_string())?;
        let root = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|fields| fields.get(2) == Some(&"cgroup2"))
            .and_then(|fields| fields.get(1).map(PathBuf::from))
            .ok_or("no cgroup2 is mounted")?;
        let path = root.join(format!("kiln-attach-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Cgroup(path))
    }

    /// Sends UDP packets to ourselves from a process inside.
    fn send(&self, count: u32) {
        let script = format!(
            "echo $$ >'{}/cgroup.procs' && for i in $(seq {count}); do echo {count} >/dev/udp/127.0.0.1/9; done",
            self.0.display()
        );
        // The discard port is closed here, which a later write may be told: that is no failure.
        let _ = command("bash", &["-c", &format!("{script}; true")]).expect("packets go out");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The kernel needs a moment to see that the last process has gone.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("{} is left behind", self.0.display());
    }
}

#[test]
fn cgroup_skb_on_a_cgroup() {
    if !allowed() {
        return;
    }
    let cgroup = match Cgroup::new() {
        Ok(cgroup) => cgroup,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let egress = AttachType::CgroupInetEgress;
    let counter = Counter::load("cgroup_skb", Some(egress), "", 1);
    cgroup.send(2);
    assert_eq!(counter.runs(), 0, "counted before it was attached");
    let link = Link::cgroup(&counter.loaded.prog, &cgroup.0, egress).expect("attaches");
    cgroup.send(5);
    counter.wait_for(5);
    drop(link);
    let before = counter.runs();
    cgroup.send(3);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(counter.runs(), before, "counted after it was detached");
    let missing = Link::cgroup(&counter.loaded.prog, Path::new("/proc/none"), egress).expect_err("no such cgroup");
    assert!(missing.to_string().contains("/proc/none"), "{missing}");
}

/// Calls a system call that hardly anyone else does, this often.
fn yield_often(count: u32) {
    for _ in 0..count {
        std::thread::yield_now();
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn raw_tracepoint_sees_system_calls() {
    if !allowed() {
        return;
    }
    // The second argument is the number of the system call; 24 is sched_yield.
    let filter = "r1 = *(u64 *)(r1 + 8)\nif r1 != 24 goto out";
    let counter = Counter::load("raw_tracepoint", None, filter, 0);
    yield_often(100);
    assert_eq!(counter.runs(), 0, "counted before it was attached");
    let link = Link::raw_tracepoint(&counter.loaded.prog, "sys_enter").expect("attaches");
    yield_often(100);
    drop(link);
    let before = counter.runs();
    assert!(before >= 100, "{before} of 100");
    yield_often(100);
    assert_eq!(counter.runs(), before, "counted after it was detached");
    let missing = Link::raw_tracepoint(&counter.loaded.prog, "kiln_no_such").expect_err("no such tracepoint");
    assert_eq!(missing.errno(), Some(2), "{missing}");
}

/// Set in the copy of this test that runs where tracefs is mounted.
const INSIDE: &str = "KILN_TRACEFS_MOUNTED";

#[test]
fn tracepoint_by_name() {
    if !allowed() {
        return;
    }
    if tracefs().is_none() {
        let advice = tracepoint_id("syscalls", "sys_enter_sched_yield").expect_err("tracefs is missing");
        assert!(advice.to_string().contains("mount -t tracefs"), "{advice}");
        assert!(std::env::var_os(INSIDE).is_none(), "mounting tracefs did not make it appear");
        // Mounted for a copy of this test alone, in a mount namespace that ends with it.
        let test = std::env::current_exe().expect("this test").display().to_string();
        let script = "mount -t tracefs tracefs /sys/kernel/tracing && exec \"$0\" --exact tracepoint_by_name";
        let output = Command::new("unshare").args(["-m", "sh", "-c", script, &test]).env(INSIDE, "1").output();
        match output {
            Ok(output) => {
                let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
                if said.contains("1 passed") || said.contains("FAILED") {
                    assert!(output.status.success(), "{said}");
                } else {
                    eprintln!("skipped: {said}");
                }
            }
            Err(error) => eprintln!("skipped: unshare: {error}"),
        }
        return;
    }
    let counter = Counter::load("tracepoint", None, "", 0);
    let link = Link::tracepoint(&counter.loaded.prog, "syscalls", "sys_enter_sched_yield").expect("attaches");
    yield_often(100);
    drop(link);
    let before = counter.runs();
    assert!(before >= 100, "{before} of 100");
    yield_often(100);
    assert_eq!(counter.runs(), before, "counted after it was detached");
    let missing = tracepoint_id("syscalls", "kiln_no_such").expect_err("no such tracepoint");
    assert!(missing.to_string().contains("no tracepoint syscalls/kiln_no_such"), "{missing}");
    assert!(tracepoint_id("../..", "x").is_err(), "left the folder of events");
}

#[test]
fn perf_event_on_a_clock() {
    if !allowed() {
        return;
    }
    let counter = Counter::load("perf_event", None, "", 0);
    let link = match Link::cpu_clock(&counter.loaded.prog, 0, 1000) {
        Ok(link) => link,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    // Work for CPU 0, wherever this thread is: its clock ticks while it does not idle.
    let work = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    command("taskset", &["-c", "0", "sh", "-c", work]).or_else(|_| command("sh", &["-c", work])).expect("works");
    drop(link);
    // A tick may be running while the clock is detached.
    std::thread::sleep(Duration::from_millis(10));
    let before = counter.runs();
    assert!(before > 0, "the clock never ticked");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(counter.runs(), before, "counted after it was detached");
}

/// Set in the copy of this test that runs without privilege.
const UNPRIVILEGED: &str = "KILN_WITHOUT_PRIVILEGE";

#[test]
fn without_privilege_the_message_says_what_is_needed() {
    if std::env::var_os(UNPRIVILEGED).is_some() {
        let error = available().expect_err("nobody may load programs");
        assert!(error.is_privilege(), "{error}");
        println!("message: {error}");
        return;
    }
    let test = std::env::current_exe().expect("this test");
    let name = "without_privilege_the_message_says_what_is_needed";
    let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let output = Command::new("setpriv")
        .args(user)
        .arg(test)
        .args(["--exact", name, "--nocapture"])
        .env(UNPRIVILEGED, "1")
        .output();
    let said = match output {
        Ok(output) => String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        Err(error) => return eprintln!("skipped: setpriv: {error}"),
    };
    if !said.contains("running 1 test") {
        return eprintln!("skipped: this test cannot run as nobody: {said}");
    }
    assert!(said.contains("(bpf(2) needs root, or CAP_BPF"), "{said}");
}
