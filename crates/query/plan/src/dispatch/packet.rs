//! A packet's fields in user space.

use super::{Above, Field, Policy};
use crate::value::Value;

/// EtherTypes.
pub(super) const IPV4: u16 = 0x0800;
/// See [`IPV4`].
pub(super) const IPV6: u16 = 0x86dd;
/// Protocols above IP.
pub(super) const TCP: u8 = 6;
/// See [`TCP`].
pub(super) const UDP: u8 = 17;
/// Bytes of headers, without options.
pub(super) const ETHERNET_BYTES: u16 = 14;
/// See [`ETHERNET_BYTES`].
pub(super) const IPV4_BYTES: u16 = 20;
/// See [`ETHERNET_BYTES`].
pub(super) const IPV6_BYTES: u16 = 40;
/// See [`ETHERNET_BYTES`].
pub(super) const UDP_BYTES: u16 = 8;
/// See [`ETHERNET_BYTES`].
pub(super) const TCP_BYTES: u16 = 20;
/// The bits of IPv4's fragment field that a whole packet has not set.
pub(super) const FRAGMENT: u16 = 0x3fff;

/// The row of a frame; `None` if the policy does not decide it. `count` packets were decided before.
pub fn fields(policy: &Policy, frame: &[u8], count: u64) -> Option<Vec<Value>> {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let at = |from: usize, bytes: usize| frame.get(from..from + bytes).map(number);
    let ip = usize::from(ETHERNET_BYTES);
    let (version, protocol, source, destination, above) = match u16::try_from(at(12, 2)?).ok()? {
        IPV4 => {
            at(ip, usize::from(IPV4_BYTES))?;
            let bytes = 4 * (at(ip, 1)? as usize & 15);
            if bytes < usize::from(IPV4_BYTES) {
                return None;
            }
            if policy.above != Above::Ip && at(ip + 6, 2)? & u64::from(FRAGMENT) != 0 {
                return None;
            }
            (4, at(ip + 9, 1)?, at(ip + 12, 4)?, at(ip + 16, 4)?, ip + bytes)
        }
        IPV6 => {
            at(ip, usize::from(IPV6_BYTES))?;
            (6, at(ip + 6, 1)?, at(ip + 16, 8)?, at(ip + 32, 8)?, ip + usize::from(IPV6_BYTES))
        }
        _ => return None,
    };
    let is = |wanted: u8| protocol == u64::from(wanted);
    let (decided, header, payload) = match policy.above {
        Above::Ip => (true, 0, frame.len()),
        above_ip => {
            let header = at(above, usize::from(UDP_BYTES))?;
            let payload = match () {
                () if is(UDP) => above + usize::from(UDP_BYTES),
                () if is(TCP) => {
                    at(above, usize::from(TCP_BYTES))?;
                    above + 4 * (at(above + 12, 1)? as usize >> 4)
                }
                () => return None,
            };
            let decided = match above_ip {
                Above::Udp => is(UDP),
                Above::Tcp => is(TCP),
                Above::Ports | Above::Ip => true,
            };
            (decided, header, payload)
        }
    };
    let value = |field: Field| match field {
        Field::Bytes => frame.len() as u64,
        Field::Count => count,
        Field::Version => version,
        Field::Protocol => protocol,
        Field::Source => source,
        Field::Destination => destination,
        Field::SourcePort => header >> 48,
        Field::DestinationPort => header >> 32 & 0xffff,
        Field::Header => header,
        Field::Payload(word) => at(payload + 8 * usize::from(word), 8).unwrap_or(0),
    };
    decided.then(|| Field::all().map(|field| Value::Uint(value(field))).collect())
}
