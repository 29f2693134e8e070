//! What is told of a program that is refused: where, why, how the path came to it.

use std::fmt;

use kiln_program::{Clean, InsnId, SourceLine};

use crate::reason::Reason;

/// A program that is unsafe, or breaks a rule.
#[derive(Clone, Debug)]
pub struct Rejection {
    /// The program's name.
    pub program: String,
    /// Where.
    pub insn: InsnId,
    /// Position of the instruction in its function, and the function's name.
    pub position: (String, usize),
    /// The instruction's text.
    pub listing: String,
    /// The source line, where known.
    pub line: Option<SourceLine>,
    /// Why.
    pub reason: Reason,
    /// What exactly, with registers and numbers.
    pub message: String,
    /// What the running kernel's verifier (Linux 6.18) prints as its reason, where that is known.
    pub kernel_message: Option<String>,
    /// How it came to this, in the order of the path; empty unless [`crate::Options::explain`] asks for it.
    pub story: Vec<StoryStep>,
    /// What fixes this case; [`Reason::fix`] unless [`crate::Options::explain`] asks for more.
    pub help: String,
}

/// One step on the way to a rejection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoryStep {
    /// The instruction.
    pub insn: InsnId,
    /// The function, and the instruction's position in it.
    pub position: (String, usize),
    /// The instruction's text.
    pub listing: String,
    /// The source line, where known.
    pub line: Option<SourceLine>,
    /// Which part it plays.
    pub part: Part,
    /// What happens here.
    pub text: String,
}

/// The part that a step plays in a story.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The value, the resource or the lock comes from here.
    Origin,
    /// It is passed on.
    Copy,
    /// A pointer is moved by something variable.
    Moved,
    /// Something is learned of it.
    Bounded,
    /// Something is forgotten of it, or it is destroyed.
    Lost,
    /// The path goes this way.
    Branch,
    /// The function that it happens in is called here.
    Call,
}

impl Part {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Origin => "origin",
            Part::Copy => "copy",
            Part::Moved => "moved",
            Part::Bounded => "bounded",
            Part::Lost => "lost",
            Part::Branch => "branch",
            Part::Call => "call",
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} is rejected: {}", Clean(&self.program), self.reason.code())?;
        let (function, position) = &self.position;
        writeln!(f, "  at instruction {position} of {}: {}", Clean(function), Clean(&self.listing))?;
        if let Some(line) = &self.line {
            writeln!(f, "  {}:{}: {}", Clean(&line.file), line.line, Clean(line.text.trim()))?;
        }
        writeln!(f, "  {}", Clean(&self.message))?;
        for (number, step) in self.story.iter().enumerate() {
            let place = match &step.line {
                Some(line) => format!("{}:{}", line.file, line.line),
                None => format!("{} instruction {}", step.position.0, step.position.1),
            };
            writeln!(f, "  {}. {}: {}", number + 1, Clean(&place), Clean(&step.text))?;
        }
        if let Some(message) = &self.kernel_message {
            writeln!(f, "  the kernel: {}", Clean(message))?;
        }
        write!(f, "  usually: {}", self.help)
    }
}
