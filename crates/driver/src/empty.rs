//! A program that only returns zero. What it takes is around every program: the call, the kernel's loop of test runs, the
//! clock. So times that people compare are given net of it.
//!
//! The processor does part of what is around a program at the same time as the program. So the net time of a program of
//! a few instructions is a little too short, in each place where it runs.

use kiln_program::{FunctionId, Object, Program, text};

/// An object with an empty program that is loaded, attached and run as the given one.
pub fn like(program: &Program) -> (Object, Program) {
    let mut object = text::parse("; program xdp\n r0 = 0\n exit\n").expect("the text is a program");
    let empty = Program { entry: FunctionId(0), ..program.clone() };
    object.programs = vec![empty.clone()];
    object.license = "GPL".to_owned();
    (object, empty)
}

/// A time without what is around the program.
pub fn net(nanoseconds: f64, around: Option<f64>) -> f64 {
    (nanoseconds - around.unwrap_or(0.0)).max(0.0)
}
