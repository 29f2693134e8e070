//! One macro for the kernel's numbered enumerations (program, attach and map types): each is a flat list of rows
//! `Name = number, "name", "KERNEL_NAME", (version)`, from which come the enum, its lookups and its set type.

/// Declares an enumeration of the kernel's ABI and a set over it.
macro_rules! kernel_enum {
    (
        $(#[$doc:meta])* enum $name:ident, set $set:ident;
        $($variant:ident = $number:literal, $text:literal, $kernel:literal, ($major:literal, $minor:literal);)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $(#[doc = concat!("`", $kernel, "`")] $variant = $number,)*
        }

        impl $name {
            /// Every value, in the order of their numbers.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The number the kernel's ABI gives it.
            pub const fn number(self) -> u32 {
                self as u32
            }

            /// The value with this number, if the kernel described here has one.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some($name::$variant),)*
                    _ => None,
                }
            }

            /// The short lower-case name, as `bpftool` and `libbpf` print it.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// The value with this short name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }

            /// The constant's name in the kernel's headers.
            pub const fn kernel_name(self) -> &'static str {
                match self { $($name::$variant => $kernel,)* }
            }

            /// The first kernel that has it.
            pub const fn since(self) -> $crate::KernelVersion {
                match self { $($name::$variant => $crate::KernelVersion::new($major, $minor),)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.name())
            }
        }

        #[doc = concat!("A set of [`", stringify!($name), "`] values, one bit each.")]
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $set(u64);

        impl $set {
            /// The empty set.
            pub const NONE: $set = $set(0);
            /// Every value.
            pub const ALL: $set = $set($((1 << $number) |)* 0);

            /// The set of these values.
            pub const fn of(values: &[$name]) -> Self {
                let mut bits = 0;
                let mut index = 0;
                while index < values.len() {
                    bits |= 1 << values[index] as u64;
                    index += 1;
                }
                $set(bits)
            }

            /// The values in either set.
            pub const fn union(self, other: $set) -> Self {
                $set(self.0 | other.0)
            }

            /// The values in this set and not in the other.
            pub const fn without(self, other: $set) -> Self {
                $set(self.0 & !other.0)
            }

            /// Whether the value is in the set.
            pub const fn contains(self, value: $name) -> bool {
                self.0 & (1 << value as u64) != 0
            }

            /// Whether the set has no value.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The values of the set, in the order of their numbers.
            pub fn iter(self) -> impl Iterator<Item = $name> {
                $name::ALL.iter().copied().filter(move |value| self.contains(*value))
            }
        }

        impl std::fmt::Debug for $set {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.debug_set().entries(self.iter()).finish()
            }
        }
    };
}

pub(crate) use kernel_enum;
