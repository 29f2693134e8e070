//! `kiln bench --profile`: what instructions and helpers cost on this machine, as a cost model.
//!
//! Each is run a few thousand times in a loop, in the kernel by test run where that is allowed, else in the VM's
//! compiled code; what the same loop takes without it is subtracted:
//!
//! ```text
//!   w9 = 0                                    w9 = 0
//!   turn:                                     turn:
//!     r2 = *(u64 *)(r2 - 8)   x 64
//!     w9 += 1                                   w9 += 1
//!     if w9 < 64 goto turn                      if w9 < 64 goto turn
//! ```
//!
//! Where possible, each measured instruction depends on the one before, so the time is a latency. Timings on shared
//! machines drift, so all loops are sampled in turns, several times over; the median counts, and the file says beside
//! each row how far the quarters around it are apart. What cannot be run by itself (an exit, a kernel function) keeps
//! the number of Kiln's table, and helpers that a test run cannot call cost what the median of the others does; the
//! file says so too.

use std::fmt::Write as _;

use kiln_platform::MapType;
use kiln_superopt::CostModel;
use kiln_superopt::cost::Class;
use kiln_vm::{Engine, Vm};
use serde::Serialize;

use crate::loading;
use crate::timing::Timing;
use kiln_inspect::input;
use kiln_program::Error;

/// One row of the profile.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The class or the helper.
    pub name: &'static str,
    /// Whether it is a helper.
    pub helper: bool,
    /// The type of the map that the helper was called with, where several were measured.
    pub on: Option<&'static str>,
    /// Nanoseconds of one, beyond the empty loop.
    pub time: Timing,
}

/// What was measured, and where.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// `the kernel` or `the VM`.
    pub place: &'static str,
    /// The processor's name, where the system says it.
    pub processor: String,
    /// The kernel's release.
    pub kernel: String,
    /// Row by row.
    pub rows: Vec<Measured>,
    /// What was not measured, and why.
    pub missing: Vec<(&'static str, String)>,
}

/// A loop to be timed: the loop with what is measured, and the loop without it.
struct Case {
    name: &'static str,
    helper: bool,
    /// The type of the map that the helper is called with, where several are measured.
    on: Option<MapType>,
    /// The program's type.
    hook: &'static str,
    /// Declarations on top, before the program's.
    maps: &'static str,
    /// Before the loop.
    setup: &'static str,
    /// In the loop, as often as `copies` says.
    body: &'static str,
    /// What of it is not measured.
    without: &'static str,
    /// Instructions measured that one body has.
    count: u32,
    copies: u32,
}

const PLAIN: Case = Case {
    name: "",
    helper: false,
    on: None,
    hook: "xdp",
    maps: "",
    setup: "r1 = 3\nr2 = 1\nr3 = 1\n",
    body: "",
    without: "",
    count: 1,
    copies: 64,
};

const fn insn(class: Class, setup: &'static str, body: &'static str, count: u32) -> Case {
    Case { name: class.name(), setup, body, count, ..PLAIN }
}

const HASH: &str = "; map hash hash key 4 value 8 entries 64\n";
const PERCPU: &str = "; map hash percpu_hash key 8 value 16 entries 64\n";
const ARRAY: &str = "; map array array key 4 value 8 entries 64\n";
const KEY: &str = "*(u64 *)(r10 - 8) = 5\n*(u64 *)(r10 - 16) = 7\n";

const fn helper(name: &'static str, setup: &'static str, body: &'static str, without: &'static str) -> Case {
    Case { name, helper: true, hook: "sched_cls", setup, body, without, copies: 16, ..PLAIN }
}

const fn on_map(
    name: &'static str,
    maps: &'static str,
    setup: &'static str,
    body: &'static str,
    without: &'static str,
) -> Case {
    Case { maps, ..helper(name, setup, body, without) }
}

/// Everything that is measured.
const CASES: &[Case] = &[
    insn(Class::Move, "r1 = 3\nr2 = 1\n", "r1 = r2\nr2 = r1\n", 2),
    insn(Class::Alu, "r1 = 3\nr2 = 1\n", "r1 += r2\nr1 ^= r2\n", 2),
    insn(Class::Shift, "r1 = 3\nr2 = 1\n", "r1 <<= r2\nr1 >>= r2\n", 2),
    insn(Class::Multiply, "r1 = 3\nr2 = 1\n", "r1 *= r2\n", 1),
    insn(Class::Divide, "r1 = 0x123456789abcd ll\nr2 = 1\n", "r1 /= r2\n", 1),
    insn(Class::Endian, "r1 = 3\n", "r1 = be64 r1\n", 1),
    insn(Class::Wide, "", "r1 = 0x123456789abcd ll\nr2 = 0x123456789abcd ll\n", 2),
    // A frame pointer kept in the frame leads to itself.
    insn(Class::Load, "*(u64 *)(r10 - 8) = r10\nr2 = r10\n", "r2 = *(u64 *)(r2 - 8)\n", 1),
    insn(Class::Store, "r1 = 3\n", "*(u64 *)(r10 - 8) = r1\n*(u64 *)(r10 - 16) = r1\n", 2),
    insn(Class::Atomic, "*(u64 *)(r10 - 8) = 3\nr1 = 1\n", "lock *(u64 *)(r10 - 8) += r1\n", 1),
    // Jumps to and fro; one to what follows it anyway would be taken out by the kernel.
    insn(Class::Jump, "", "goto one@\ntwo@:\ngoto three@\none@:\ngoto two@\nthree@:\n", 3),
    insn(Class::Branch, "r1 = *(u32 *)(r1 + 12)\n", "if w1 == 0x7fffffff goto out\n", 1),
    insn(Class::Call, "", "call leaf\n", 1),
    Case { hook: "sched_cls", ..insn(Class::PacketLoad, "r6 = r1\n", "r0 = *(u32 *)skb[12]\n", 1) },
    helper("ktime_get_ns", "", "call ktime_get_ns\n", ""),
    helper("ktime_get_boot_ns", "", "call ktime_get_boot_ns\n", ""),
    helper("ktime_get_coarse_ns", "", "call ktime_get_coarse_ns\n", ""),
    helper("get_prandom_u32", "", "call get_prandom_u32\n", ""),
    helper("get_smp_processor_id", "", "call get_smp_processor_id\n", ""),
    helper("get_numa_node_id", "", "call get_numa_node_id\n", ""),
    helper("jiffies64", "", "call jiffies64\n", ""),
    helper("redirect", "", "r1 = 1\nr2 = 0\ncall redirect\n", "r1 = 1\nr2 = 0\n"),
    helper(
        "csum_diff",
        KEY,
        "r1 = r10\nr1 += -8\nr2 = 4\nr3 = r10\nr3 += -16\nr4 = 4\nr5 = 0\ncall csum_diff\n",
        "r1 = r10\nr1 += -8\nr2 = 4\nr3 = r10\nr3 += -16\nr4 = 4\nr5 = 0\n",
    ),
    helper(
        "skb_load_bytes",
        "r7 = r1\n",
        "r1 = r7\nr2 = 0\nr3 = r10\nr3 += -8\nr4 = 8\ncall skb_load_bytes\n",
        "r1 = r7\nr2 = 0\nr3 = r10\nr3 += -8\nr4 = 8\n",
    ),
    on_map(
        "map_lookup_elem",
        HASH,
        KEY,
        "r1 = map[hash]\nr2 = r10\nr2 += -8\ncall map_lookup_elem\n",
        "r1 = map[hash]\nr2 = r10\nr2 += -8\n",
    ),
    on_map(
        "map_update_elem",
        ARRAY,
        KEY,
        "r1 = map[array]\nr2 = r10\nr2 += -8\nr3 = r10\nr3 += -16\nr4 = 0\ncall map_update_elem\n",
        "r1 = map[array]\nr2 = r10\nr2 += -8\nr3 = r10\nr3 += -16\nr4 = 0\n",
    ),
    on_map(
        "map_delete_elem",
        HASH,
        KEY,
        "r1 = map[hash]\nr2 = r10\nr2 += -8\ncall map_delete_elem\n",
        "r1 = map[hash]\nr2 = r10\nr2 += -8\n",
    ),
    // What queries call.
    helper("get_current_pid_tgid", "", "call get_current_pid_tgid\n", ""),
    helper("get_current_uid_gid", "", "call get_current_uid_gid\n", ""),
    helper("get_current_cgroup_id", "", "call get_current_cgroup_id\n", ""),
    helper(
        "get_current_comm",
        "",
        "r1 = r10\nr1 += -16\nr2 = 16\ncall get_current_comm\n",
        "r1 = r10\nr1 += -16\nr2 = 16\n",
    ),
    helper(
        "probe_read_kernel",
        KEY,
        "r1 = r10\nr1 += -8\nr2 = 8\nr3 = r10\nr3 += -16\ncall probe_read_kernel\n",
        "r1 = r10\nr1 += -8\nr2 = 8\nr3 = r10\nr3 += -16\n",
    ),
    Case {
        on: Some(MapType::PercpuHash),
        ..on_map(
            "map_lookup_elem",
            PERCPU,
            FOUND,
            "r1 = map[hash]\nr2 = r10\nr2 += -8\ncall map_lookup_elem\n",
            "r1 = map[hash]\nr2 = r10\nr2 += -8\n",
        )
    },
    Case {
        on: Some(MapType::Hash),
        ..on_map(
            "map_lookup_elem",
            HASH_OF_16,
            FOUND,
            "r1 = map[hash]\nr2 = r10\nr2 += -8\ncall map_lookup_elem\n",
            "r1 = map[hash]\nr2 = r10\nr2 += -8\n",
        )
    },
];

const HASH_OF_16: &str = "; map hash hash key 8 value 16 entries 64\n";
/// A key that is in the map.
const FOUND: &str = "*(u64 *)(r10 - 8) = 5\n*(u64 *)(r10 - 16) = 7\n*(u64 *)(r10 - 24) = 7\n\
                     r1 = map[hash]\nr2 = r10\nr2 += -8\nr3 = r10\nr3 += -24\nr4 = 0\ncall map_update_elem\n";

/// Turns of each loop.
const TURNS: u32 = 64;
/// Runs a sample.
const RUNS: u32 = 400;
/// Samples of each.
const SAMPLES: usize = 15;

impl Case {
    /// The loop with or without what is measured.
    fn text(&self, measured: bool) -> String {
        let mut text = format!("{}; program {}\n; function main\n", self.maps, self.hook);
        let _ = write!(text, "{}w9 = 0\nturn:\n", self.setup);
        for copy in 0..self.copies {
            let body = if measured { self.body } else { self.without };
            text.push_str(&body.replace('@', &copy.to_string()));
        }
        let _ = write!(text, "w9 += 1\nif w9 < {TURNS} goto turn\nout:\nr0 = 0\nexit\n");
        if measured && self.body.contains("leaf") {
            text.push_str("; function leaf\nr0 = 0\nexit\n");
        }
        text
    }

    /// Instructions measured in one run.
    fn all(&self) -> f64 {
        f64::from(self.count * self.copies * TURNS)
    }
}

/// A loop, loaded.
enum Loaded {
    Kernel(kiln_linux::LoadedImage),
    Vm(Box<Vm>),
}

impl Loaded {
    fn new(text: &str, in_kernel: bool) -> Result<Loaded, String> {
        let input = input::parse("profile.bpf", text.as_bytes().to_vec(), &[]).map_err(|error| error.to_string())?;
        let program = &input.object.programs[0];
        if in_kernel {
            let loaded = kiln_linux::load_image(&input.object, program);
            return loaded.map(Loaded::Kernel).map_err(|failure| failure.why());
        }
        let vm = loading::load_vm(&input, program, crate::DEFAULT_BUDGET).map_err(|error| error.to_string())?;
        Ok(Loaded::Vm(Box::new(vm)))
    }

    /// Nanoseconds a run.
    fn sample(&mut self) -> Result<f64, String> {
        let packet = vec![0; 64];
        match self {
            Loaded::Kernel(image) => {
                let input = kiln_linux::TestInput { packet, context: Vec::new(), repeat: RUNS };
                image.prog.test_run(&input).map(|ran| ran.duration_ns.into()).map_err(|error| error.to_string())
            }
            Loaded::Vm(vm) => {
                let input = kiln_vm::Input::packet(&packet).repeated(RUNS);
                vm.run("main", &input, Engine::Jit).map(|ran| ran.duration_ns).map_err(|error| error.to_string())
            }
        }
    }
}

/// Measures, also in the kernel if `in_kernel`. `step` gets the name of each measurement and returns whether to go on.
///
/// # Errors
/// [`Error::Unsupported`] when nothing could be measured at all, or it was ended.
pub fn profile(in_kernel: bool, step: &mut dyn FnMut(String) -> bool) -> Result<Profile, Error> {
    let mut missing = Vec::new();
    let mut loaded: Vec<(&Case, [Loaded; 2], Vec<f64>)> = Vec::new();
    for case in CASES {
        let both = Loaded::new(&case.text(true), in_kernel)
            .and_then(|with| Ok([with, Loaded::new(&case.text(false), in_kernel)?]));
        match both {
            Ok(both) => loaded.push((case, both, Vec::new())),
            Err(why) => missing.push((case.name, why)),
        }
    }
    // One more round than counts: the first warms up.
    for round in 0..=SAMPLES {
        if !step(format!("round {round} of {SAMPLES}")) {
            return Err(Error::Unsupported("ended before it was measured".to_owned()));
        }
        for (case, [with, without], samples) in &mut loaded {
            if let (Ok(with), Ok(without)) = (with.sample(), without.sample())
                && round > 0
            {
                samples.push((with - without).max(0.0) / case.all());
            }
        }
    }
    let mut rows = Vec::new();
    for (case, _, samples) in loaded {
        match Timing::of(samples) {
            Some(time) => {
                let on = case.on.map(MapType::name);
                rows.push(Measured { name: case.name, helper: case.helper, on, time });
            }
            None => missing.push((case.name, "it does not run".to_owned())),
        }
    }
    if rows.is_empty() {
        return Err(Error::Unsupported(format!("nothing could be measured: {}", missing[0].1)));
    }
    let place = if in_kernel { "the kernel" } else { "the VM" };
    Ok(Profile { place, processor: processor(), kernel: kernel(), rows, missing })
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split(':').nth(1)).unwrap_or("unknown").trim().to_owned()
}

fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

impl Profile {
    /// The cost model: what was measured, and the rest from the table of this kind of machine.
    pub fn model(&self) -> CostModel {
        let mut model = CostModel::default();
        let picoseconds = |row: &Measured| (row.time.median_ns * 1000.0).round() as u64;
        let mut helpers: Vec<u64> = Vec::new();
        for row in &self.rows {
            let class = Class::ALL.iter().find(|class| class.name() == row.name && !row.helper);
            let on = row.on.and_then(MapType::from_name);
            match (class, kiln_platform::Helper::by_name(row.name)) {
                (Some(class), _) => model.set_class(*class, picoseconds(row)),
                (None, Some(helper)) if let Some(on) = on => model.set_helper_on(helper.id, on, picoseconds(row)),
                (None, Some(helper)) => {
                    model.set_helper(helper.id, picoseconds(row));
                    helpers.push(picoseconds(row));
                }
                (None, None) => {}
            }
        }
        helpers.sort_unstable();
        if let Some(median) = helpers.get(helpers.len() / 2) {
            model.set_other_helpers(*median);
        }
        model
    }

    /// The file that `kiln optimize --cost-model` reads.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "# Measured by `kiln bench --profile`: {}, Linux {}, in {}.\n# Nanoseconds, the median of {SAMPLES} \
             samples; behind it how far the quarters around it are apart.\n",
            self.processor, self.kernel, self.place
        );
        for line in self.model().to_text().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let measured = self.rows.iter().find(|row| match words[..] {
                [_, name, _] => row.name == name && row.on.is_none(),
                [_, name, "on", on, _] => row.name == name && row.on == Some(on),
                _ => false,
            });
            let note = match (measured, words.first()) {
                (Some(row), _) => format!("  # {:.3}", row.time.high_ns - row.time.low_ns),
                (None, Some(&"machine")) => String::new(),
                (None, _) if words.get(1) == Some(&"*") && self.rows.iter().any(|row| row.helper) => {
                    "  # the median of the others".to_owned()
                }
                (None, _) => "  # not measured".to_owned(),
            };
            let _ = writeln!(text, "{line}{note}");
        }
        text
    }
}
