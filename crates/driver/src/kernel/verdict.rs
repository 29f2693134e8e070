//! The running kernel's verdicts, beside Kiln's own.

use kiln_inspect::Input;
use kiln_inspect::check::{Checked, KernelVerdict, Verdict};
use kiln_platform::ProgramType;
use kiln_program::{Object, Program, Replaced};
use kiln_verifier::Reason;

use super::Target;

/// Adds the running kernel's verdict to each of Kiln's. `checked` are the verdicts on `programs`, in their order.
///
/// The kernel is not asked about a program that Kiln rejects with `lost-precision`. Linux 6.18.44 writes outside of an
/// array there, and a load of such a program can stop the machine.
pub fn add(checked: &mut [Checked], input: &Input, programs: &[&Program]) {
    let together = |(checked, program): (&Checked, &&Program)| {
        let alone = matches!(program.program_type, None | Some(ProgramType::StructOps | ProgramType::Ext));
        checked.verdict.is_accepted() && !alone && input.elf.is_some() && input.object.operations.is_empty()
    };
    let pairs = checked.iter().zip(programs).enumerate();
    let likely: Vec<usize> = pairs.filter(|(_, pair)| together(*pair)).map(|(at, _)| at).collect();
    for some in likely.chunks(TOGETHER) {
        let verdicts = verdicts(input, &some.iter().map(|at| programs[*at]).collect::<Vec<_>>());
        some.iter().zip(verdicts).for_each(|(at, verdict)| checked[*at].kernel = Some(verdict));
    }
    for (checked, program) in checked.iter_mut().zip(programs).filter(|(checked, _)| checked.kernel.is_none()) {
        let asked = || match (&program.replaces, &input.target) {
            (Some(replaced), Some(target)) => replacement(input, program, replaced, target),
            _ => verdict(&input.bytes, &input.object, program),
        };
        checked.kernel = Some(if is_dangerous(&checked.verdict) { withheld() } else { asked() });
    }
}

/// Programs that are loaded at once, at most.
const TOGETHER: usize = 64;

/// The kernel's verdicts on programs that it is likely to accept: all at once, and if it refuses that, in halves. So an
/// object of thousands of programs is not read once for each.
fn verdicts(input: &Input, programs: &[&Program]) -> Vec<KernelVerdict> {
    if let [one] = programs {
        return vec![verdict(&input.bytes, &input.object, one)];
    }
    match super::load_together(&input.bytes, &input.object, programs) {
        Ok(infos) => infos.into_iter().map(|info| said(Ok(info))).collect(),
        Err(_) => {
            let (some, others) = programs.split_at(programs.len() / 2);
            [verdicts(input, some), verdicts(input, others)].concat()
        }
    }
}

/// Whether a load of a program with this verdict can stop the machine: see [`add`].
pub fn is_dangerous(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Rejected { code, .. } if code == Reason::LostPrecision.code())
}

fn withheld() -> KernelVerdict {
    let reason = "loading a program with lost-precision can stop the machine, by a bug of some kernels";
    KernelVerdict::NotAsked { reason: reason.to_owned().into(), errno: None }
}

/// Asks the running kernel, by loading the program and unloading it again.
pub fn verdict(bytes: &[u8], object: &Object, program: &Program) -> KernelVerdict {
    let loaded = if bytes.starts_with(b"\x7fELF") {
        super::load(bytes, object, program).map(|loaded| loaded.prog.info())
    } else {
        kiln_linux::load_image(object, program).map(|loaded| loaded.prog.info())
    };
    said(loaded)
}

/// What a load says of a program: what the kernel tells of it, or why it has none.
fn said(loaded: Result<Result<kiln_linux::ProgInfo, kiln_linux::Error>, kiln_linux::LoadFailure>) -> KernelVerdict {
    match loaded {
        Ok(info) => KernelVerdict::Accepted { processed_insns: info.map_or(0, |info| info.verified_insns) },
        Err(failure) => refused(&failure),
    }
}

/// Asks about a program that stands for a function of another one, which is loaded before it.
fn replacement(input: &Input, program: &Program, replaced: &Replaced, target: &Input) -> KernelVerdict {
    let not_asked = |what: String, errno| {
        let reason =
            format!("{} of {}, whose {} it replaces: {what}", replaced.program, target.object.name, replaced.function);
        KernelVerdict::NotAsked { reason: reason.into(), errno }
    };
    let Some(host) = target.object.program(&replaced.program) else {
        return not_asked("it is not there".to_owned(), None);
    };
    let host = match super::load(&target.bytes, &target.object, host) {
        Ok(host) => host,
        Err(failure) => return not_asked(failure.to_string(), failure.error.errno()),
    };
    let function = Target { program: &host.prog, function: &replaced.function };
    said(super::load_for(&input.bytes, &input.object, program, Some(function)).map(|loaded| loaded.prog.info()))
}

/// What a failed load says of the program: what the verifier refuses has a log, or is too large for it to begin. A map
/// that the kernel does not make is a refusal, too.
fn refused(failure: &kiln_linux::LoadFailure) -> KernelVerdict {
    const E2BIG: i32 = 7;
    let errno = failure.error.errno();
    match failure.reason() {
        Some(reason) => KernelVerdict::Rejected { reason: reason.into() },
        None if errno == Some(E2BIG) => KernelVerdict::Rejected { reason: failure.to_string().into() },
        None => match failure.refused_map() {
            Some(line) => KernelVerdict::Rejected { reason: line.into() },
            None => KernelVerdict::NotAsked { reason: failure.to_string().into(), errno },
        },
    }
}

#[cfg(test)]
mod tests {
    use kiln_inspect::check;
    use kiln_platform::{KernelVersion, Profile};
    use kiln_verifier::{Options, Prepared};

    use super::*;

    #[test]
    fn a_program_that_can_stop_the_machine_is_not_loaded() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/filetests/verifier/packet-load-fails-and-a-register-matters.bpf");
        let input = kiln_inspect::input::open(&path, &[]).unwrap();
        let programs: Vec<&Program> = input.object.programs.iter().collect();
        let profile = Profile::of(KernelVersion::new(6, 18));
        let options = Options { profile, ..input.verifier_options() };
        let mut checked = check::check(&input, &programs);
        checked[0].verdict = check::verdict(&Prepared::new(&input.object, &options), programs[0], &options);
        add(&mut checked, &input, &programs);
        let asked = checked[0].kernel.as_ref().unwrap();
        assert!(matches!(asked, KernelVerdict::NotAsked { errno: None, .. }), "{asked:?}");
    }
}
