//! Compares the rows of kfuncs with the running kernel: who may call them, and which may sleep.

mod oracle;

use kiln_platform::{AttachType as At, Kfunc, KfuncFlag, ProgramType as Type};
use oracle::{CALL_KFUNC, EXIT, Kernel, Place, mov_imm, place, place_at, places};

/// The kernel's answer to a call of the kfunc with the context as its first argument and zeros as the others.
fn ask(kernel: &mut Kernel, place: Place, kfunc: &str) -> String {
    let code = [mov_imm(2, 0), mov_imm(3, 0), mov_imm(4, 0), mov_imm(5, 0), CALL_KFUNC, mov_imm(0, 0), EXIT];
    kernel.load_calling(place, kfunc, &code).1
}

/// The kernel has no such function.
fn is_missing(log: &str) -> bool {
    log.contains("call #0")
}

/// Kfuncs for devices are refused with another message, whatever the program type.
fn is_device_bound(kfunc: &Kfunc) -> bool {
    kfunc.name.starts_with("bpf_xdp_metadata_")
}

/// Functions that every kernel may have without offering them to programs, by configuration.
const CONFIGURABLE: [&str; 1] = ["bpf_verify_pkcs7_signature"];

fn is_asked(kfunc: &&Kfunc) -> bool {
    !is_device_bound(kfunc) && !CONFIGURABLE.contains(&kfunc.name)
}

#[test]
fn program_types_are_the_kernels() {
    let Some(mut kernel) = Kernel::open("kfuncs: program types") else { return };
    let hook = Place { target: "func:bpf_lsm_file_open", ..place_at(Type::Lsm, At::LsmMac) };
    let places: Vec<Place> = places().into_iter().chain([hook]).collect();
    let version = kernel.version;
    let (mut wrong, mut asked, mut missing) = (Vec::new(), 0, Vec::new());
    for kfunc in Kfunc::all().filter(is_asked).filter(|kfunc| kfunc.is_of(version)) {
        if is_missing(&ask(&mut kernel, place(Type::Syscall), kfunc.name)) {
            missing.push(kfunc.name);
            continue;
        }
        for place in &places {
            let log = ask(&mut kernel, *place, kfunc.name);
            if !log.contains("call ") {
                // The program was refused before its first instruction was looked at.
                continue;
            }
            asked += 1;
            let allowed = !log.contains("is not allowed");
            if allowed != kfunc.allowed_at(place.program_type, place.attach) {
                wrong.push(format!("{} in {place:?}: the kernel says {allowed}", kfunc.name));
            }
        }
    }
    eprintln!("kfuncs: {asked} answers; this kernel lacks {missing:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(asked > 5000, "only {asked} answers");
}

#[test]
fn sleepable_is_the_kernels() {
    let Some(mut kernel) = Kernel::open("kfuncs: sleepable") else { return };
    let version = kernel.version;
    let (mut wrong, mut asked) = (Vec::new(), 0);
    for kfunc in Kfunc::all().filter(is_asked).filter(|kfunc| kfunc.is_of(version)) {
        let not_sleepable = places().into_iter().filter(|place| !place.sleepable);
        let Some(place) = not_sleepable.into_iter().find(|place| kfunc.allowed_at(place.program_type, place.attach))
        else {
            continue;
        };
        let log = ask(&mut kernel, place, kfunc.name);
        if is_missing(&log) {
            continue;
        }
        asked += 1;
        let sleepable = log.contains("must be sleepable to call sleepable kfunc");
        if sleepable != kfunc.has(KfuncFlag::Sleepable) {
            wrong.push(format!("{}: the kernel says {sleepable}", kfunc.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(asked > 100, "only {asked} answers");
}
