//! Parses the running kernel's types and prints how long it took.

use kiln_program::btf::{Btf, Kind};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = std::fs::read("/sys/kernel/btf/vmlinux")?;
    let begin = std::time::Instant::now();
    let types = Btf::parse(&bytes)?;
    let parsed = begin.elapsed();
    let found = types.find("task_struct", |kind| matches!(kind, Kind::Composite { .. }));
    println!("{} types parsed in {parsed:?}, indexed by name in {:?}", types.type_count(), begin.elapsed() - parsed);
    println!("task_struct is {found:?}");
    Ok(())
}
