//! Writes an object with a `goto +0` after every instruction, as the tests do, for inspection with other tools: `grow
//! IN OUT`.

#[path = "../tests/support/mod.rs"]
mod support;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [input, output] = arguments.as_slice() else { return Err("usage: grow IN OUT".into()) };
    let elf = kiln_elf::read(input, &std::fs::read(input)?)?;
    std::fs::write(output, elf.write(&support::with_jumps_to_next(&elf.object))?)?;
    Ok(())
}
