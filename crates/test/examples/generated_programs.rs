//! Writes generated programs as text into a folder: `generated_programs FOLDER COUNT`. Half of them compute with numbers
//! only, half with the bytes of a packet. `scripts/arm64-kernel` takes them to another machine.

use std::path::Path;
use std::process::ExitCode;

use kiln_driver::packets::Random;
use kiln_platform::ProgramType;
use kiln_test::generate;

/// Random instructions of a program at most.
const LENGTH: u64 = 120;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(folder), Some(count)) = (arguments.first(), arguments.get(1).and_then(|word| word.parse::<u64>().ok()))
    else {
        eprintln!("usage: generated_programs FOLDER COUNT");
        return ExitCode::from(2);
    };
    for seed in 0..count {
        let mut random = Random::new(seed);
        let length = 1 + random.below(LENGTH) as usize;
        let object = match seed % 2 {
            0 => generate::arithmetic(&mut random, ProgramType::Xdp, length),
            _ => generate::packet_program(&mut random, length),
        };
        let path = Path::new(folder).join(format!("generated{seed}.bpf"));
        if let Err(why) = std::fs::write(&path, kiln_program::text::print(&object)) {
            eprintln!("{}: {why}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
