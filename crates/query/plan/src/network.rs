//! Networks of addresses: `10.0.0.0/8`, `fe80::/10`.

use std::net::IpAddr;

/// A network: the addresses that begin with some bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// An address in it.
    pub address: IpAddr,
    /// How many of its first bits all addresses of the network have.
    pub bits: u32,
}

/// Parses a network, or an address as the network of itself.
pub fn parse(text: &str) -> Option<Network> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => most,
        Some(bits) => bits.parse().ok().filter(|bits| *bits <= most)?,
    };
    Some(Network { address, bits })
}

impl Network {
    /// Whether an address is in it. Addresses of the other version are not.
    pub fn contains(self, address: IpAddr) -> bool {
        // The bits of both that differ, the first one at the top.
        let differ = match (self.address, address) {
            (IpAddr::V4(one), IpAddr::V4(other)) => u128::from(one.to_bits() ^ other.to_bits()) << 96,
            (IpAddr::V6(one), IpAddr::V6(other)) => one.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        differ.leading_zeros() >= self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_their_networks() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("1.2.3.4", "1.2.3.4", true),
            ("1.2.3.4/31", "1.2.3.6", false),
            ("fe80::/10", "febf::1", true),
            ("fe80::/10", "10.0.0.1", false),
            ("::/0", "::1", true),
        ] {
            let network = parse(network).expect("it is one");
            assert_eq!(network.contains(address.parse().expect("an address")), expected, "{network:?} {address}");
        }
        for wrong in ["10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1", "x", ""] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
