//! Functions by name: which there are, and their value in user space.

use crate::value::Value;

/// Functions of one or more values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// The greatest power of two that is not above an unsigned integer, as its exponent; 0 for 0.
    Log2,
    /// The magnitude of a number.
    Abs,
    /// Text, or a number as text, in lower case.
    Lower,
    /// Text, or a number as text, in upper case.
    Upper,
    /// Characters of a text, or of a number as text.
    Length,
    /// The first operand that is not null.
    Coalesce,
    /// A number of 64 bits that integers and texts are mixed to.
    Hash,
    /// The least of several values.
    Least,
    /// The greatest of several values.
    Greatest,
    /// By how much an integer is above another; 0 if it is not.
    Above,
    /// Whether an address is in a network.
    Cidr,
    /// A function of floating-point numbers.
    Floating(Floating),
}

/// Functions of floating-point numbers, which give one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Floating {
    /// The square root; null for negative numbers.
    Sqrt,
    /// The cube root.
    Cbrt,
    /// e to this power.
    Exp,
    /// The natural logarithm; null for 0 and negative numbers.
    Ln,
    /// A number to the power of another.
    Power,
}

impl Function {
    /// All functions, with their names and their minimum and maximum number of operands.
    pub const ALL: [(&'static str, Function, [usize; 2]); 16] = [
        ("log2", Function::Log2, [1, 1]),
        ("abs", Function::Abs, [1, 1]),
        ("lower", Function::Lower, [1, 1]),
        ("upper", Function::Upper, [1, 1]),
        ("length", Function::Length, [1, 1]),
        ("coalesce", Function::Coalesce, [1, 16]),
        ("hash", Function::Hash, [1, 16]),
        ("least", Function::Least, [1, 16]),
        ("greatest", Function::Greatest, [1, 16]),
        ("above", Function::Above, [2, 2]),
        ("cidr", Function::Cidr, [2, 2]),
        ("sqrt", Function::Floating(Floating::Sqrt), [1, 1]),
        ("cbrt", Function::Floating(Floating::Cbrt), [1, 1]),
        ("exp", Function::Floating(Floating::Exp), [1, 1]),
        ("ln", Function::Floating(Floating::Ln), [1, 1]),
        ("power", Function::Floating(Floating::Power), [2, 2]),
    ];

    /// Whether all operands are numbers.
    pub fn is_of_numbers(self) -> bool {
        matches!(self, Function::Log2 | Function::Abs | Function::Above | Function::Floating(_))
    }

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        let row = Function::ALL.iter().find(|(_, function, _)| *function == self);
        row.map_or("", |(name, ..)| name)
    }
}

/// A function of these values.
pub(super) fn call(function: Function, values: &[Value]) -> Value {
    let first = values.first().unwrap_or(&Value::Null);
    match function {
        Function::Coalesce => values.iter().find(|value| !value.is_null()).cloned().unwrap_or(Value::Null),
        Function::Hash => hash(values).map_or(Value::Null, Value::Uint),
        Function::Least | Function::Greatest | Function::Above if values.iter().any(Value::is_null) => Value::Null,
        Function::Cidr => match (first, values.get(1)) {
            (Value::Text(address), Some(Value::Text(network))) => {
                match (address.parse(), crate::network::parse(network)) {
                    (Ok(address), Some(network)) => Value::Bool(network.contains(address)),
                    _ => Value::Null,
                }
            }
            _ => Value::Null,
        },
        Function::Least => values.iter().min().cloned().unwrap_or(Value::Null),
        Function::Greatest => values.iter().max().cloned().unwrap_or(Value::Null),
        Function::Above => match (first.as_integer(), values.get(1).and_then(Value::as_integer)) {
            (Some(one), Some(other)) => u64::try_from((one - other).max(0)).map_or(Value::Null, Value::Uint),
            _ => Value::Null,
        },
        Function::Floating(function) => match floating(function, values) {
            Some(value) if value.is_finite() => Value::Float(value),
            _ => Value::Null,
        },
        Function::Log2 => first.bits().map_or(Value::Null, |bits| Value::Uint(u64::from(bits.max(1).ilog2()))),
        Function::Abs => match first {
            Value::Float(value) => Value::Float(value.abs()),
            Value::Int(value) => Value::Uint(value.unsigned_abs()),
            other => other.clone(),
        },
        Function::Lower => first.to_text().map_or(Value::Null, |text| Value::text(&text.to_lowercase())),
        Function::Upper => first.to_text().map_or(Value::Null, |text| Value::text(&text.to_uppercase())),
        Function::Length => first.to_text().map_or(Value::Null, |text| Value::Uint(text.chars().count() as u64)),
    }
}

/// A function of floating-point numbers; `None` if an operand is not a number.
fn floating(function: Floating, values: &[Value]) -> Option<f64> {
    let of = |at: usize| values.get(at).and_then(Value::as_float);
    let one = of(0)?;
    Some(match function {
        Floating::Sqrt => one.sqrt(),
        Floating::Cbrt => one.cbrt(),
        Floating::Exp => one.exp(),
        Floating::Ln => one.ln(),
        Floating::Power => one.powf(of(1)?),
    })
}

/// What a hash begins with. Each number is mixed into it: `h = (h ^ number) * FACTOR; h ^= h >> SHIFT`.
pub(crate) const HASH_BEGIN: u64 = 0x9e37_79b9_7f4a_7c15;
/// See [`HASH_BEGIN`].
pub(crate) const HASH_FACTOR: u64 = 0xff51_afd7_ed55_8ccd;
/// See [`HASH_BEGIN`].
pub(crate) const HASH_SHIFT: u32 = 32;

/// The hash of several values; `None` if one is null or has no bits.
fn hash(values: &[Value]) -> Option<u64> {
    let mix = |hash: u64, number: u64| {
        let mixed = (hash ^ number).wrapping_mul(HASH_FACTOR);
        mixed ^ mixed >> HASH_SHIFT
    };
    values.iter().try_fold(HASH_BEGIN, |hash, value| match value {
        Value::Text(text) => {
            let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            Some(mix(text.as_bytes().chunks(8).map(word).fold(hash, mix), text.len() as u64))
        }
        number => Some(mix(hash, number.bits()?)),
    })
}

/// The hash of a value.
pub(crate) fn hash_of(value: &Value) -> u64 {
    let hash_of = |value: &Value| hash(std::slice::from_ref(value)).unwrap_or_default();
    match value {
        Value::Float(value) => hash_of(&Value::Uint(value.to_bits())),
        other => hash_of(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floating_point_functions_are_null_without_a_value() {
        let call = |function, of: &[f64]| {
            call(Function::Floating(function), &of.iter().copied().map(Value::Float).collect::<Vec<_>>())
        };
        assert_eq!(call(Floating::Cbrt, &[-27.0]), Value::Float(-3.0));
        assert_eq!(call(Floating::Power, &[2.0, 0.5]), call(Floating::Sqrt, &[2.0]));
        for (function, of) in [(Floating::Sqrt, &[-1.0][..]), (Floating::Ln, &[0.0]), (Floating::Exp, &[1e4])] {
            assert!(call(function, of).is_null(), "{function:?} of {of:?}");
        }
        assert!(super::call(Function::Floating(Floating::Sqrt), &[Value::text("4")]).is_null());
        assert_eq!(super::call(Function::Floating(Floating::Sqrt), &[Value::Uint(4)]), Value::Float(2.0));
    }
}
