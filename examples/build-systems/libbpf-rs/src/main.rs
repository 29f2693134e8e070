//! Opens the skeleton and says what is in it.

mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/count.skel.rs"));
}

use std::mem::MaybeUninit;

use libbpf_rs::skel::SkelBuilder;

fn main() -> Result<(), libbpf_rs::Error> {
    let mut room = MaybeUninit::uninit();
    let open = skeleton::CountSkelBuilder::default().open(&mut room)?;
    println!("{} in {}", open.progs.count.name().to_string_lossy(), open.progs.count.section().to_string_lossy());
    Ok(())
}
