//! What R0 holds after a call of a helper.

use kiln_isa::Reg;
use kiln_platform::{Feature, Lookup, ReturnKind, helper_id};

use crate::call::said::HelperEffect;
use crate::domain::Scalar;
use crate::error::{Step, reject, unsupported};
use crate::path::Path;
use crate::reason::Reason;
use crate::state::{Held, Holds, Register, Trust};
use crate::types::hook::MAX_ERRNO;

impl HelperEffect<'_, '_> {
    pub(crate) fn result_of(&mut self) -> Step<Register> {
        let HelperEffect { helper, prototype, call, .. } = *self;
        let mut result = match prototype.returns {
            ReturnKind::Integer => Register::scalar(self.integer_result()),
            ReturnKind::Void => Register::UNINIT,
            ReturnKind::MapValueOrNull => self.lookup_result()?,
            ReturnKind::MapValue => match &call.map {
                Some(map) => {
                    Register { inner: map.inner, ..Register::pointer(Holds::MapValue(map.map().unwrap_or_default())) }
                }
                None => return unsupported(format!("the result of {}", helper.name)),
            },
            ReturnKind::SocketOrNull => Register::pointer(Holds::Socket).or_null(self.path.fresh_id()),
            ReturnKind::TcpSockOrNull => Register::pointer(Holds::TcpSock).or_null(self.path.fresh_id()),
            ReturnKind::SockCommonOrNull => Register::pointer(Holds::SockCommon).or_null(self.path.fresh_id()),
            ReturnKind::RingBufferMemoryOrNull => {
                let size = call.allocation.and_then(|size| u32::try_from(size).ok()).unwrap_or(0);
                Register::pointer(Holds::RingBuffer(size)).or_null(self.path.fresh_id())
            }
            ReturnKind::BtfId { type_name, nullable, trusted } => {
                let index = self.path.types.kernel_struct(type_name);
                let trust = if trusted { Trust::TRUSTED } else { Trust::NONE };
                let pointer = Register::pointer(Holds::Structure(index)).trusted(trust);
                if nullable { pointer.or_null(self.path.fresh_id()) } else { pointer }
            }
            ReturnKind::DynptrMemoryOrNull => {
                let Some(dynptr) = call.dynptr else { return unsupported(format!("the result of {}", helper.name)) };
                self.path.slice_of(&dynptr, call.allocation.and_then(|size| u32::try_from(size).ok()).unwrap_or(0))
            }
            ReturnKind::PercpuVariable { nullable } => {
                let Some(variable) = call.owner else { return unsupported(format!("the result of {}", helper.name)) };
                let own = self.path.types.own_of_percpu(&variable)?;
                if nullable { own.or_null(self.path.fresh_id()) } else { own }
            }
            ReturnKind::KptrOrNull => match &call.kptr {
                Some(kptr) => self.path.taken_from_kptr(kptr)?,
                None => return unsupported(format!("the result of {}", helper.name)),
            },
        };
        let map_type = call.map.as_ref().and_then(|map| self.path.code.map_type_of(map));
        let socket_map = map_type.is_some_and(|map_type| map_type.rules().lookup == Lookup::Socket);
        if helper.acquires || helper.id == helper_id::MAP_LOOKUP_ELEM && socket_map {
            let id = if result.id != 0 { result.id } else { self.path.fresh_id() };
            result.id = id;
            result.reference = id;
            self.path.state.references.push(Held { id, at: self.path.at });
        } else if helper.casts_argument {
            result.reference = call.reference;
        }
        Ok(result)
    }

    pub(crate) fn integer_result(&self) -> Scalar {
        let HelperEffect { helper, call, .. } = *self;
        let known = helper.id != helper_id::GET_TASK_STACK || self.path.options.kernel_has(Feature::TaskStackResults);
        if helper.returns_size && known {
            return Scalar::signed_range(-i64::from(MAX_ERRNO), call.most_bytes as i64);
        }
        if helper.id != helper_id::GET_SMP_PROCESSOR_ID {
            return Scalar::UNKNOWN;
        }
        let known = self.path.options.processors.filter(|_| !self.path.any_load()).unwrap_or(MAX_PROCESSORS);
        Scalar::unsigned_range(0, u64::from(known.saturating_sub(1)))
    }

    pub(crate) fn lookup_result(&mut self) -> Step<Register> {
        let HelperEffect { helper, call, .. } = *self;
        let Some(argument) = call.map else { return unsupported(format!("the result of {}", helper.name)) };
        let Some(map) = self.path.code.map_of(&argument) else {
            return unsupported("a map whose definition is not known");
        };
        let (name, map_type, entries) = (map.name.clone(), map.map_type, map.max_entries);
        let rules = map_type.rules();
        let value = Register {
            inner: argument.inner,
            owner: argument.owner,
            ..Register::pointer(Holds::MapValue(argument.map().unwrap_or_default()))
        };
        let in_array = rules.finds_every_key
            && !self.path.options.unprivileged
            && map.flags & INNER_MAP == 0
            && call.key.is_some_and(|key| key < u64::from(entries))
            && helper.id == helper_id::MAP_LOOKUP_ELEM
            && self.path.options.kernel_has(Feature::ConstantArrayKeys)
            && !self.path.any_load();
        let id = self.path.fresh_id();
        if in_array {
            let locked = self.path.types.record_of(self.path.code, &value).is_some_and(|record| record.has_lock());
            return Ok(Register { id: if locked { id } else { 0 }, ..value });
        }
        Ok(match rules.lookup {
            Lookup::Value => value.or_null(id),
            _ if rules.per_object => value.or_null(id),
            Lookup::ReadOnlyValue => Register { read_only: true, ..value }.or_null(id),
            Lookup::InnerMap => {
                Register { inner: true, owner: id, ..Register::pointer(Holds::Map(argument.map().unwrap_or_default())) }
                    .or_null(id)
            }
            Lookup::Socket => Register { inner: true, ..Register::pointer(Holds::Socket) }.or_null(id),
            Lookup::XdpSocket => Register { inner: true, ..Register::pointer(Holds::XdpSock) }.or_null(id),
            Lookup::None => {
                return reject(
                    Reason::MapHelperMismatch,
                    format!("{} cannot be used with map {name} of type {}", helper.name, map_type.name()),
                );
            }
        })
    }
}

impl Path<'_> {
    /// The result of a helper, of which a failure and a size are followed on their own.
    pub(crate) fn fork_by_sign(&mut self, most: u64) {
        let mut failed = self.state.clone();
        failed.set(Reg::R0, Register::scalar(Scalar::signed_range(i32::MIN.into(), -1)));
        self.push(failed, self.at + 1);
        self.state.set(Reg::R0, Register::scalar(Scalar::unsigned_range(0, most)));
    }
}

/// The flag of an array that may stand in a map of maps for one of another size (`BPF_F_INNER_MAP`).
pub(crate) const INNER_MAP: u32 = 0x1000;

/// The most processors that a kernel is built for (`CONFIG_NR_CPUS`).
pub(crate) const MAX_PROCESSORS: u32 = 8192;
