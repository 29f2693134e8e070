//! Compares our verdict with the running kernel's on every argument of every tracepoint and iterator in its BTF.
//!
//! ```text
//!   r2 = *(u64 *)(r1 + 8*N)          accepted as far as here: there is such an argument
//!   if r2 == 0 goto out              (left out in one of two programs: the other kind may be null)
//!   r3 = *(u8 *)(r2 + 0)             accepted: it is a pointer to a structure
//! ```

use std::sync::Arc;

use kiln_driver::input::running_kernel_types;
use kiln_linux::load_image;
use kiln_program::Object;
use kiln_program::btf::{Btf, Kind};
use kiln_program::text::parse;
use kiln_test::engine::kernel_available;
use kiln_verifier::{Error, Options, verify};

/// What may be read of an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reading {
    /// Itself.
    Value,
    /// What it points to.
    Behind,
    /// What it points to, after a comparison with null.
    BehindChecked,
}

/// Arguments that later kernels and Kiln treat as nullable or as errors, although this kernel does not.
const LATER_FIXES: [(&str, usize); 3] = [("sched_process_wait", 0), ("signal_generate", 1), ("signal_deliver", 1)];

/// Arguments of a tracepoint at most (kernel `MAX_BPF_FUNC_ARGS`).
const ARGUMENTS: usize = 12;

fn program(section: &str, attach: &str, argument: usize, reading: Reading) -> Object {
    let mut text =
        format!("; program tracing section \"{section}\" attach {attach}\n  r2 = *(u64 *)(r1 + {})\n", 8 * argument);
    match reading {
        Reading::Value => {}
        Reading::Behind => text.push_str("  r3 = *(u8 *)(r2 + 0)\n"),
        Reading::BehindChecked => text.push_str("  if r2 == 0 goto out\n  r3 = *(u8 *)(r2 + 0)\nout:\n"),
    }
    text.push_str("  r0 = 0\n  exit\n");
    parse(&text).expect("the text is well formed")
}

/// Whether ours and the kernel's verdicts agree; the kernel's.
fn compare(object: &Object, types: &Arc<Btf>) -> Result<bool, String> {
    let options = Options { kernel_types: Some(Arc::clone(types)), skip_facts: true, ..Options::default() };
    let own = match verify(object, &object.programs[0], &options) {
        Ok(_) => true,
        Err(Error::Rejected(_)) => false,
        Err(error) => return Err(error.to_string()),
    };
    let kernel = match load_image(object, &object.programs[0]) {
        Ok(_) => true,
        Err(failure) if kiln_test::boundary::is_not_asked(&failure) => return Ok(own),
        Err(_) => false,
    };
    if own == kernel { Ok(kernel) } else { Err(format!("Kiln says {own}, the kernel {kernel}")) }
}

#[test]
fn arguments_are_the_kernels() {
    if let Err(reason) = kernel_available() {
        eprintln!("skipped: kernel: {reason}");
        return;
    }
    let Some(types) = running_kernel_types() else {
        eprintln!("skipped: the kernel's BTF cannot be read");
        return;
    };
    let btf = types.as_ref();
    let names = |prefix: &str, wanted: fn(&Kind) -> bool| -> Vec<String> {
        let named = btf.own_ids().filter(|id| wanted(btf.kind(*id)));
        named.filter_map(|id| btf.name(id).strip_prefix(prefix)).map(str::to_owned).collect()
    };
    let mut hooks: Vec<(String, &str, String)> = names("btf_trace_", |kind| matches!(kind, Kind::Typedef { .. }))
        .into_iter()
        .map(|name| (format!("tp_btf/{name}"), "trace_raw_tp", name))
        .collect();
    hooks.extend(
        names("bpf_iter__", |kind| matches!(kind, Kind::Composite { .. }))
            .into_iter()
            .filter(|name| !name.contains("__safe"))
            .map(|name| (format!("iter/{name}"), "trace_iter", name)),
    );
    let (mut asked, mut wrong) = (0, Vec::new());
    for (section, attach, name) in &hooks {
        for argument in 0..ARGUMENTS {
            let mut there = true;
            for reading in [Reading::Value, Reading::Behind, Reading::BehindChecked] {
                if LATER_FIXES.contains(&(name.as_str(), argument)) {
                    continue;
                }
                asked += 1;
                match compare(&program(section, attach, argument, reading), &types) {
                    Ok(accepted) => there &= accepted || reading != Reading::Value,
                    Err(what) => wrong.push(format!("{section} argument {argument}, {reading:?}: {what}")),
                }
            }
            if !there {
                break;
            }
        }
    }
    eprintln!("hooks: {asked} programs on {} tracepoints and iterators", hooks.len());
    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked > 1000, "only {asked}");
}
