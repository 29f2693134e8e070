//! Rows of tables are written as sentences: `helper(..).args(..).allowed(..)`.

/// Methods that change one field of a row and return the row. Each has a line: `name(arguments) => field = value;`, and no
/// brackets if it takes no arguments.
macro_rules! setters {
    ($row:ident: $($(#[$doc:meta])* $name:ident $(($($argument:ident: $type:ty),*))? => $($field:ident).+ = $value:expr;)*) => {
        impl $row {
            $($(#[$doc])* pub(crate) const fn $name(mut self $($(, $argument: $type)*)?) -> Self {
                self.$($field).+ = $value;
                self
            })*
        }
    };
}

pub(crate) use setters;
