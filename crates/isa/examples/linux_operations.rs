//! Prints `operations.h`, which the kernel module in `kernel/modules` includes.

fn main() {
    print!("{}", kiln_isa::operation::linux::header());
}
