//! Conditions on addresses over integers, as the kernel has them.
//!
//! ```text
//!   daddr << '10.0.0.0/8'   ->   family = 2 AND v4 & ff000000 = 0a000000
//!                                OR family = 10 AND high = 0 AND low & ffffffffff000000 = 0000ffff0a000000
//! ```

use std::net::IpAddr;

use crate::expr::{BinaryOp, Expr};
use crate::network::{Network, parse};
use crate::value::Value;

/// The columns of an address: its family, its IPv4 form, and the halves of its IPv6 form, in network order.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// `AF_INET` or `AF_INET6`; addresses of other families are null.
    pub family: usize,
    /// The IPv4 address.
    pub v4: usize,
    /// The halves of the IPv6 address.
    pub v6: [usize; 2],
}

/// The families of addresses (`AF_INET`, `AF_INET6`).
pub const FAMILIES: [u64; 2] = [2, 10];

/// Whether the bits of a mask are those of a value.
fn equal(column: usize, mask: u64, value: u64) -> Expr {
    let constant = |value| Expr::Literal(Value::Uint(value));
    let masked = match mask {
        u64::MAX => Expr::Column(column),
        _ => Expr::binary(BinaryOp::BitAnd, Expr::Column(column), constant(mask)),
    };
    Expr::binary(BinaryOp::Equal, masked, constant(value & mask))
}

fn both(one: Expr, other: Expr) -> Expr {
    Expr::binary(BinaryOp::And, one, other)
}

impl Columns {
    /// Whether there is an address: it is not null.
    pub fn is_known(self) -> Expr {
        let [one, other] = FAMILIES.map(|family| equal(self.family, u64::MAX, family));
        Expr::binary(BinaryOp::Or, one, other)
    }

    /// Whether the address is in a network, over integers. It is false where the address is null.
    ///
    /// An IPv4 address that is mapped to IPv6 is an IPv4 address: `00 .. 00 ff ff`, then its four bytes.
    pub fn are_in(self, network: Network) -> Expr {
        let [is_v4, is_v6] = FAMILIES.map(|family| equal(self.family, u64::MAX, family));
        let [high, low] = self.v6;
        let mapped = |mask: u32, address: u32| {
            let wide = |first: [u8; 4], last: u32| {
                let mut bytes = [0; 8];
                bytes[..4].copy_from_slice(&first);
                bytes[4..].copy_from_slice(&last.to_be_bytes());
                u64::from_ne_bytes(bytes)
            };
            both(equal(high, u64::MAX, 0), equal(low, wide([0xff; 4], mask), wide([0, 0, 0xff, 0xff], address)))
        };
        match network.address {
            IpAddr::V4(address) => {
                let address = address.to_bits();
                let mask = u32::MAX.checked_shl(32 - network.bits).unwrap_or(0);
                let native = |bits: u32| u64::from(u32::from_ne_bytes(bits.to_be_bytes()));
                let plain = both(is_v4, equal(self.v4, native(mask), native(address)));
                Expr::binary(BinaryOp::Or, plain, both(is_v6, mapped(mask, address)))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - network.bits).unwrap_or(0);
                let halves =
                    |bits: u128| [bits >> 64, bits].map(|half| u64::from_ne_bytes((half as u64).to_be_bytes()));
                let ([high_mask, low_mask], [high_bits, low_bits]) = (halves(mask), halves(address.to_bits()));
                let inside = both(equal(high, high_mask, high_bits), equal(low, low_mask, low_bits));
                both(both(is_v6, inside), Expr::Not(Box::new(mapped(0, 0))))
            }
        }
    }
}

/// The network of one address that is written as addresses are shown; nothing for other texts, which no address is equal to.
pub fn exactly(text: &str) -> Option<Network> {
    let address: IpAddr = text.parse().ok()?;
    (address.to_canonical().to_string() == text).then(|| parse(text)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_over_integers_are_the_same_networks() {
        let columns = Columns { family: 0, v4: 1, v6: [2, 3] };
        let addresses =
            ["10.1.2.3", "10.1.2.4", "0.0.0.0", "255.255.255.255", "::", "::1", "fe80::1", "febf::", "::a01:203"];
        let networks = [
            "10.0.0.0/8",
            "10.1.2.3",
            "10.1.2.3/31",
            "0.0.0.0/0",
            "::/0",
            "::1",
            "fe80::/10",
            "::/96",
            "::ffff:0:0/96",
        ];
        for address in addresses.map(|text| text.parse::<IpAddr>().expect("an address")) {
            // An IPv4 address as itself, and as an IPv6 socket has it.
            let forms = match address {
                IpAddr::V4(v4) => vec![(2, v4.octets(), [7; 16]), (10, [7; 4], v4.to_ipv6_mapped().octets())],
                IpAddr::V6(v6) => vec![(10, [7; 4], v6.octets())],
            };
            for (family, v4, v6) in forms {
                let half = |at: usize| u64::from_ne_bytes(v6[at..at + 8].try_into().expect("eight bytes"));
                let row = [family, u32::from_ne_bytes(v4).into(), half(0), half(8)].map(Value::Uint);
                for network in networks.map(|text| parse(text).expect("a network")) {
                    let decided = columns.are_in(network).evaluate(&row);
                    assert_eq!(decided, Value::Bool(network.contains(address)), "{address} {network:?} as {family}");
                }
                assert_eq!(columns.is_known().evaluate(&row), Value::Bool(true));
            }
        }
        let none = [0u64, 7, 7, 7].map(Value::Uint);
        assert_eq!(columns.is_known().evaluate(&none), Value::Bool(false));
        assert_eq!(columns.are_in(parse("0.0.0.0/0").expect("a network")).evaluate(&none), Value::Bool(false));
        assert!(exactly("10.0.0.1").is_some() && exactly("fe80::1").is_some());
        assert!(["10.0.0.0/8", "FE80::1", "::ffff:1.2.3.4", "x"].iter().all(|text| exactly(text).is_none()));
    }
}
