//! Certifies one listing against another: `replay SOLVER ORIGINAL.bpf OPTIMIZED.bpf`.

use std::time::{Duration, Instant};

use kiln_certificate::find;
use kiln_certificate::provenance::Arguments;
use kiln_certificate::solver::{Answer, Process, Program, Solver};
use kiln_program::{FunctionId, Object};

struct Counting(Process, usize);

impl Solver for Counting {
    fn ask(&mut self, query: &str) -> Answer {
        self.1 += 1;
        let begun = Instant::now();
        let answer = self.0.ask(query);
        if let Ok(folder) = std::env::var("QUERIES") {
            let _ = std::fs::write(
                format!("{folder}/{:05}.smt2", self.1),
                format!("; {answer:?} {:?}\n{query}", begun.elapsed()),
            );
        }
        answer
    }
}

fn read(path: &str) -> Object {
    let text = std::fs::read_to_string(path).expect("a file");
    kiln_program::text::parse(&text).expect("a listing")
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (old, new) = (read(&arguments[1]), read(&arguments[2]));
    let program = Program::find(Some(&arguments[0]), Duration::from_secs(5)).expect("a solver");
    let mut solver = Counting(Process::new(&program, Duration::from_secs(5)), 0);
    let known = Arguments::of(&old);
    for (index, function) in old.functions.iter().enumerate() {
        let id = FunctionId(index as u32);
        let other = new.function(id);
        if other.nodes == function.nodes || arguments.get(3).is_some_and(|name| *name != function.name) {
            continue;
        }
        let (begun, before) = (Instant::now(), solver.1);
        let done = find::certify([&old, &new], id, [function, other], &known, &mut solver, &|| false);
        let (asked, spent) = (solver.1 - before, begun.elapsed().as_millis());
        let what = format!("{} {} {}->{}", old.name, function.name, function.slots(), other.slots());
        match done {
            Ok((pairs, _, count)) => println!(
                "{what}: proved, {} pairs, {} identical, {} queries, {asked} asked, {spent} ms",
                pairs.len(),
                count.identical,
                count.queries
            ),
            Err(why) => println!("{what}: NOT {why}, {asked} asked, {spent} ms"),
        }
    }
}
