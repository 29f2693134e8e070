//! Instructions that Kiln's verifier and the kernel's process, program by program, for objects outside of the corpora:
//!
//! ```text
//!   cargo run --release -p kiln-bench --example processed_counts -- --type sched_cls bpf_host.o bpf_lxc.o
//!   bpf_host.o:cil_from_netdev    5120    5120    1.000
//! ```
//!
//! `--type` is for programs whose section names say none. The kernel is given the program as Kiln reads it, so that
//! objects count which libbpf does not open, such as those with map definitions from before BTF.

use std::path::Path;
use std::process::ExitCode;

use kiln_driver::ProgramType;
use kiln_driver::input::{self, running_kernel_types};
use kiln_verifier::{Options, Prepared};

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut types = Vec::new();
    if arguments.first().is_some_and(|first| first == "--type") && arguments.len() > 1 {
        let name = arguments.drain(..2).nth(1).unwrap_or_default();
        let Some(program_type) = ProgramType::from_name(&name) else {
            eprintln!("no program type {name}");
            return ExitCode::from(2);
        };
        types.push((String::new(), program_type));
    }
    if let Err(reason) = kiln_test::engine::kernel_available() {
        eprintln!("skipped: kernel: {reason}");
        return ExitCode::SUCCESS;
    }
    for path in &arguments {
        if let Err(error) = object(Path::new(path), &types) {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn object(path: &Path, types: &input::Types) -> Result<(), kiln_driver::Error> {
    let mut input = input::open(path, types)?;
    let types = running_kernel_types();
    if let Some(types) = &types {
        // What cannot be resolved stays, as an instruction that is refused where it can be reached.
        let _ = kiln_elf::resolve_core(&mut input.object, types);
    }
    let object = kiln_vm::with_sized_maps(input.object.clone());
    let options = Options { skip_facts: true, kernel_types: types, ..Options::default() };
    let prepared = Prepared::new(&object, &options);
    for program in object.programs.iter().filter(|program| program.program_type.is_some()) {
        let name = format!("{}:{}", path.file_name().unwrap_or_default().to_string_lossy(), program.name);
        let ours = prepared.verify(program, &options).map(|verified| verified.statistics.processed_insns);
        let kernels = kiln_linux::load_image(&object, program)
            .map_err(|failure| failure.why())
            .and_then(|loaded| loaded.prog.info().map_err(|error| error.to_string()))
            .map(|info| info.verified_insns);
        match (ours, kernels) {
            (Ok(ours), Ok(kernels)) => {
                println!("{name}\t{ours}\t{kernels}\t{:.3}", ours as f64 / f64::from(kernels.max(1)));
            }
            (Err(_), Err(_)) => println!("{name}\trejected by both"),
            (Ok(_), Err(reason)) => println!("{name}\tonly the kernel rejects: {reason}"),
            (Err(error), Ok(_)) => println!("{name}\tonly Kiln rejects: {error}"),
        }
    }
    Ok(())
}
