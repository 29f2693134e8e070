//! Decimal numbers appended to bytes, without an allocation.

/// Digits of the largest number of 64 bits.
const MOST: usize = 20;

/// Appends a number's digits.
pub fn push(to: &mut Vec<u8>, mut number: u64) {
    let (mut digits, mut from) = ([0; MOST], MOST);
    loop {
        from -= 1;
        digits[from] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    to.extend_from_slice(&digits[from..]);
}

/// Appends a number's digits, with a sign if it is negative.
pub fn push_signed(to: &mut Vec<u8>, number: i64) {
    if number < 0 {
        to.push(b'-');
    }
    push(to, number.unsigned_abs());
}

#[cfg(test)]
mod tests {
    use super::push_signed;

    #[test]
    fn numbers_are_those_of_the_standard_library() {
        for number in [0, 1, -1, 9, 10, -10, 12_345, i64::MAX, i64::MIN, i64::MIN + 1] {
            let mut text = Vec::new();
            push_signed(&mut text, number);
            assert_eq!(text, number.to_string().into_bytes());
        }
    }
}
