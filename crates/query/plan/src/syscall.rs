//! Names of system calls.

use syscalls::Sysno;

/// The name of a system call of this architecture; `None` for numbers that have none.
pub fn name(number: i64) -> Option<&'static str> {
    let number = usize::try_from(number).ok()?;
    Sysno::new(number).map(|known| known.name())
}

/// The number of a system call of this architecture by its name.
pub fn number(name: &str) -> Option<i64> {
    name.parse::<Sysno>().ok().map(|known| i64::from(known.id()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_and_numbers() {
        let number = super::number("read").expect("every architecture has it");
        assert_eq!(super::name(number), Some("read"));
        assert_eq!(super::name(-1), None);
        assert_eq!(super::number("no_such_call"), None);
    }
}
