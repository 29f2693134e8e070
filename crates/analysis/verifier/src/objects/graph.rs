//! Objects that the program allocates, and the lists and trees it keeps them in.
//!
//! ```text
//!   n = bpf_obj_new(node)             n: owning, reference 4        must be dropped, stored or added
//!   bpf_spin_lock(&lock)
//!   bpf_rbtree_add(&root, &n->rb)     n: non-owning                 the tree owns it; n may be used
//!   m = bpf_rbtree_first(&root)       m: non-owning, may be null    until
//!   bpf_spin_unlock(&lock)            n, m: no pointers any more    the lock is given up
//! ```
//!
//! A root may be used only while the lock in the same value or object is held. Whatever was an owning pointer to an
//! object that is added becomes a non-owning one. With a `bpf_refcount` in it an object may have several owners:
//! `bpf_refcount_acquire` makes an owning pointer of a non-owning one.

use kiln_isa::Reg;
use kiln_platform::{AttachType, Feature, KfuncMeaning, ProgramType, SpecialType};
use kiln_program::btf::{Kind as BtfKind, TypeId};

use crate::call::said::{KfuncCall, KfuncEffect};
use crate::code::Code;
use crate::error::{Step, refuse, reject, unsupported};
use crate::objects::fields::{FieldKind, Root};
use crate::options::Options;
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Caller, Holds, Kind, Register, State, Trust};
use crate::types::Types;
use crate::types::parameters::is_plain;

/// The largest per-CPU object, in bytes (kernel `BPF_GLOBAL_PERCPU_MA_MAX_SIZE`).
const MAX_PERCPU_BYTES: u32 = 512;

impl Register {
    /// Points to an object of the program's own type, however it is held.
    pub(crate) fn is_allocated(&self) -> bool {
        self.kind() == Kind::BtfId && self.trust.has(Trust::ALLOCATED)
    }

    /// Points to such an object that the program owns, or may be taken to.
    pub(crate) fn is_plain_object(&self) -> bool {
        self.kind() == Kind::BtfId && !self.nullable && self.trust == Trust::ALLOCATED
    }
}

impl KfuncEffect<'_, '_> {
    /// The tree calls the program's function to compare two of its nodes.
    pub(crate) fn call_comparison(&mut self) -> Step<()> {
        let KfuncEffect { call, .. } = *self;
        let (Some(callee), Some(root)) = (call.callback, call.root) else { return unsupported("this callback") };
        let mut frame = self.path.new_frame(callee, Caller::Callback { lowest: 0, highest: 1 })?;
        self.path.findings.noted.take_results(callee, 0, 1);
        let node = self.path.types.node_of(root);
        let node = self.path.types.not_owning(node);
        frame.registers[1] = node;
        frame.registers[2] = node;
        self.path.push_callback(frame, callee)
    }

    /// Makes pointers to an added object non-owning: the list or tree owns it now.
    pub(crate) fn give_to_graph(&mut self) -> Step<()> {
        let KfuncEffect { call, .. } = *self;
        let id = self.path.state.register(Reg::R2).reference;
        let Some(index) = call.object else { return Ok(()) };
        let refcounted = self.path.types.is_refcounted(index);
        self.path.state.for_each_where(
            |register| register.reference == id && register.is_allocated(),
            |register| {
                register.reference = 0;
                register.trust = register.trust.with(Trust::NOT_OWNING);
                if refcounted {
                    register.trust = register.trust.with(Trust::RCU);
                }
            },
        );
        self.path.state.release_reference(
            &mut self.path.findings,
            self.path.options.stale_pointer(),
            id,
            call.kfunc.name,
        )
    }

    /// The result of a kfunc about objects, lists or trees.
    pub(crate) fn graph_result(&mut self) -> Step<Option<Register>> {
        let KfuncEffect { call, .. } = *self;
        Ok(Some(match call.kfunc.meaning {
            KfuncMeaning::NewObject { .. } => {
                if !self.path.code.has_function_types() {
                    let message = format!("{}: the kernel gets no types with the program", call.kfunc.name);
                    return refuse(Reason::ArgumentType, Case::NoProgramTypes, message);
                }
                let object = self.path.types.new_object(call)?;
                self.path.acquired(call.kfunc, object)
            }
            KfuncMeaning::AcquireObject => {
                let Some(index) = call.object else { return Ok(None) };
                let object = Register::pointer(Holds::Structure(index)).trusted(Trust::ALLOCATED);
                let object = self.path.acquired(call.kfunc, object);
                // The owner of one reference always gets another.
                let id = if self.path.types.object_record(index).is_some_and(|record| record.has_lock()) {
                    object.id
                } else {
                    0
                };
                if call.owning { Register { nullable: false, id, ..object } } else { object }
            }
            KfuncMeaning::TakeNode => {
                let Some(root) = call.root else { return Ok(None) };
                let node = self.path.types.node_of(root);
                self.path.acquired(call.kfunc, node)
            }
            KfuncMeaning::FindNode => {
                let Some(root) = call.root else { return Ok(None) };
                let node = self.path.types.node_of(root);
                let node = self.path.types.not_owning(node);
                node.or_null(self.path.fresh_id())
            }
            _ => return Ok(None),
        }))
    }
}

impl Types {
    /// An object to be dropped.
    pub(crate) fn check_allocated_argument(&mut self, call: &mut KfuncCall, register: &Register) -> Step<()> {
        let name = call.kfunc.name;
        let wanted = match call.kfunc.meaning {
            KfuncMeaning::DropObject { per_cpu: true } => Trust::ALLOCATED.with(Trust::PERCPU),
            _ => Trust::ALLOCATED,
        };
        if register.kind() != Kind::BtfId || register.nullable || register.trust != wanted {
            return reject(Reason::ArgumentType, format!("{name} takes an object as it was allocated"));
        }
        if !register.owns() {
            return reject(Reason::NotHeld, format!("{name}: the object is not owned by the program here"));
        }
        if register.fixed_offset() != Some(0) {
            return reject(Reason::NotHeld, format!("{name} takes the pointer as it was acquired, unmodified"));
        }
        call.object = Some(register.type_index());
        Ok(())
    }

    /// Newer kernels refuse that tracing programs which may interrupt others free what an interrupt could find half freed.
    pub(crate) fn check_safe_drop(&self, code: &Code<'_>, options: &Options, call: &KfuncCall) -> Step<()> {
        if !matches!(call.kfunc.meaning, KfuncMeaning::DropObject { .. }) || !options.kernel_has(Feature::SafeDrops) {
            return Ok(());
        }
        let traces = match code.program_type {
            ProgramType::Tracing => !code.program.sleepable && code.program.attach_type != Some(AttachType::TraceIter),
            ProgramType::Kprobe
            | ProgramType::Tracepoint
            | ProgramType::PerfEvent
            | ProgramType::RawTracepoint
            | ProgramType::RawTracepointWritable => true,
            _ => false,
        };
        let unsafe_field = |kind: FieldKind| !kind.is_safe_in_interrupts();
        let record = call.object.and_then(|object| self.object_record(object));
        if traces && record.is_some_and(|record| record.has(unsafe_field)) {
            let message = format!("{}: a tracing program cannot free an object with such fields", call.kfunc.name);
            return reject(Reason::SpecialField, message);
        }
        Ok(())
    }

    /// An object with a reference counter.
    pub(crate) fn check_refcounted_argument(
        &mut self,
        options: &Options,
        call: &mut KfuncCall,
        register: &Register,
    ) -> Step<()> {
        let name = call.kfunc.name;
        let lost = register.trust.has(Trust::UNTRUSTED);
        if !register.is_allocated() || register.nullable || lost && options.kernel_has(Feature::SectionsProtect) {
            return reject(Reason::ArgumentType, format!("{name} takes an object of the program, owned or not"));
        }
        if register.scalar.as_constant() != Some(0) {
            return reject(Reason::ArgumentType, format!("{name}: the pointer's offset is not constant"));
        }
        if !self.is_refcounted(register.type_index()) {
            return reject(Reason::ArgumentType, format!("{name}: the object has no bpf_refcount"));
        }
        call.owning = !register.trust.has(Trust::NOT_OWNING) && register.owns();
        call.object = Some(register.type_index());
        Ok(())
    }

    /// A list's head or a tree's root, or a node.
    pub(crate) fn check_graph_argument(
        &mut self,
        code: &Code<'_>,
        options: &Options,
        state: &State,
        call: &mut KfuncCall,
        register: &Register,
        what: SpecialType,
    ) -> Step<()> {
        match what {
            SpecialType::ListHead | SpecialType::TreeRoot => self.check_root(code, state, call, register, what),
            _ => self.check_node(code, options, state, call, register, what),
        }
    }

    fn check_root(
        &mut self,
        code: &Code<'_>,
        state: &State,
        call: &mut KfuncCall,
        register: &Register,
        what: SpecialType,
    ) -> Step<()> {
        let (wanted_type, what) = (what, what.row().name);
        let name = call.kfunc.name;
        let in_value = register.kind() == Kind::MapValue && !register.nullable;
        if !in_value && !register.is_plain_object() {
            return reject(Reason::ArgumentType, format!("{name} takes a {what} in a map value or an object"));
        }
        if !in_value && !register.owns() {
            return reject(Reason::NotHeld, format!("{name}: the object with the {what} is not owned here"));
        }
        let wanted = |kind: FieldKind| kind.is(wanted_type);
        let field = self.find_field(code, register, wanted, format!("{name} takes a {what}"))?;
        if !state.holds_lock_of(register) {
            return reject(
                Reason::LockDiscipline,
                format!("{name}: the lock beside the {what}, in the same value or object, is not held"),
            );
        }
        let FieldKind::Root(_, root) = field.kind else { return Ok(()) };
        call.root = Some(root);
        Ok(())
    }

    fn check_node(
        &mut self,
        code: &Code<'_>,
        options: &Options,
        state: &State,
        call: &mut KfuncCall,
        register: &Register,
        what: SpecialType,
    ) -> Step<()> {
        let (wanted_type, what) = (what, what.row().name);
        let name = call.kfunc.name;
        let adds = matches!(call.kfunc.meaning, KfuncMeaning::AddToList | KfuncMeaning::AddToTree);
        // A second node is in the list already; the first is put beside it.
        if adds && call.object.is_none() {
            if !register.is_plain_object() || !register.owns() {
                return reject(
                    Reason::ArgumentType,
                    format!("{name} takes a {what} of an object that the program owns"),
                );
            }
        } else {
            // The kernel (6.18) would take a pointer that may be null, and read through it.
            let owned = register.owns() && options.kernel_has(Feature::OwnedNodes);
            let held = register.trust.has(Trust::NOT_OWNING) || owned;
            if !register.is_allocated() || !held || register.nullable {
                return reject(
                    Reason::ArgumentType,
                    format!("{name} takes a {what} of an object that is owned, or was found in the tree, and not null"),
                );
            }
            if state.in_tree_callback(code) {
                return reject(Reason::LockDiscipline, format!("{name} is called while the tree is being changed"));
            }
        }
        let wanted = |kind: FieldKind| kind.is(wanted_type);
        let field = self.find_field(code, register, wanted, format!("{name} takes a {what}"))?;
        let Some(root) = call.root else { return unsupported(format!("the prototype of {name}")) };
        let held = self.pointed(register.type_index()).map_or(TypeId::VOID, |pointed| pointed.id);
        if held != root.value || field.offset != root.node_offset {
            let btf = self.program.as_deref();
            let wanted = btf.map_or("", |btf| btf.name(root.value));
            return reject(
                Reason::ArgumentType,
                format!(
                    "{name}: it holds struct {wanted} by their {what} at offset {}, this is struct {} at {}",
                    root.node_offset,
                    self.name(register.type_index()),
                    field.offset
                ),
            );
        }
        call.object = Some(register.type_index());
        Ok(())
    }

    /// A node of what is in a list or tree.
    fn node_of(&mut self, root: Root) -> Register {
        let index = self.program_type(root.value);
        let offset = i32::try_from(root.node_offset).unwrap_or(0);
        Register { offset, ..Register::pointer(Holds::Structure(index)).trusted(Trust::ALLOCATED) }
    }

    /// The pointer no longer owns its object.
    fn not_owning(&self, register: Register) -> Register {
        let trust = register.trust.with(Trust::NOT_OWNING);
        let trust = if self.is_refcounted(register.type_index()) { trust.with(Trust::RCU) } else { trust };
        Register { trust, reference: 0, ..register }
    }

    fn new_object(&mut self, call: &KfuncCall) -> Step<Register> {
        let name = call.kfunc.name;
        let Some(id) = call.constant.and_then(|id| u32::try_from(id).ok()).map(TypeId) else {
            return reject(Reason::ArgumentType, format!("{name}: the type's number must fit 32 bits"));
        };
        let Some(btf) = self.program.as_deref() else {
            return reject(Reason::ArgumentType, format!("{name}: the program has no BTF"));
        };
        let BtfKind::Composite { union: false, size, .. } = *btf.kind(id) else {
            return reject(
                Reason::ArgumentType,
                format!("{name} takes the number of a structure of the program's BTF"),
            );
        };
        let mut trust = Trust::ALLOCATED;
        if call.kfunc.meaning == (KfuncMeaning::NewObject { per_cpu: true }) {
            let plain = is_plain(btf, id);
            trust = trust.with(Trust::PERCPU);
            if size > MAX_PERCPU_BYTES {
                return reject(
                    Reason::ArgumentSize,
                    format!("{name}: {size} bytes, at most {MAX_PERCPU_BYTES} are allowed"),
                );
            }
            let index = self.program_type(id);
            if !plain || self.object_record(index).is_some_and(|record| !record.fields.is_empty()) {
                return reject(Reason::ArgumentType, format!("{name} takes a structure of numbers only"));
            }
        }
        let index = self.program_type(id);
        Ok(Register::pointer(Holds::Structure(index)).trusted(trust))
    }
}
