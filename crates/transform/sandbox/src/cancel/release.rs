//! What ends what: the call that gives back what another call acquired, took or began.

use kiln_platform::helper_id;
use kiln_program::{Node, Object, Reference};

/// A helper by its number, or a kfunc by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Called {
    Helper(u32),
    Kfunc(&'static str),
}
use Called::{Helper, Kfunc};

/// How something is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Release {
    pub call: Called,
    pub name: &'static str,
    /// A second argument follows, which is 0: flags, or a reserved pointer.
    pub zero: bool,
}

/// By name: what acquires, what gives back, whether it takes a second argument, 0.
const KFUNCS: [(&str, &str, bool); 22] = [
    ("bpf_res_spin_lock", "bpf_res_spin_unlock", false),
    ("bpf_res_spin_lock_irqsave", "bpf_res_spin_unlock_irqrestore", false),
    ("bpf_local_irq_save", "bpf_local_irq_restore", false),
    ("bpf_preempt_disable", "bpf_preempt_enable", false),
    ("bpf_rcu_read_lock", "bpf_rcu_read_unlock", false),
    ("bpf_obj_new_impl", "bpf_obj_drop_impl", true),
    ("bpf_percpu_obj_new_impl", "bpf_percpu_obj_drop_impl", true),
    ("bpf_task_acquire", "bpf_task_release", false),
    ("bpf_task_from_pid", "bpf_task_release", false),
    ("bpf_task_from_vpid", "bpf_task_release", false),
    ("bpf_task_get_cgroup1", "bpf_cgroup_release", false),
    ("bpf_cgroup_acquire", "bpf_cgroup_release", false),
    ("bpf_cgroup_ancestor", "bpf_cgroup_release", false),
    ("bpf_cgroup_from_id", "bpf_cgroup_release", false),
    ("bpf_cpumask_create", "bpf_cpumask_release", false),
    ("bpf_cpumask_acquire", "bpf_cpumask_release", false),
    ("bpf_xdp_ct_alloc", "bpf_ct_release", false),
    ("bpf_xdp_ct_lookup", "bpf_ct_release", false),
    ("bpf_skb_ct_alloc", "bpf_ct_release", false),
    ("bpf_skb_ct_lookup", "bpf_ct_release", false),
    ("bpf_xdp_get_xfrm_state", "bpf_xdp_xfrm_state_release", false),
    ("bpf_crypto_ctx_acquire", "bpf_crypto_ctx_release", false),
];

/// The same for helpers, by number.
const HELPERS: [(u32, u32, &str, bool); 6] = [
    (84, 86, "bpf_sk_release", false),
    (85, 86, "bpf_sk_release", false),
    (99, 86, "bpf_sk_release", false),
    (131, 133, "bpf_ringbuf_discard", true),
    (198, 200, "bpf_ringbuf_discard_dynptr", true),
    (93, 94, "bpf_spin_unlock", false),
];

/// Iterators: the names of their kfuncs differ in the end only.
const ITERATORS: [(&str, &str); 9] = [
    ("bpf_iter_num_new", "bpf_iter_num_destroy"),
    ("bpf_iter_bits_new", "bpf_iter_bits_destroy"),
    ("bpf_iter_task_new", "bpf_iter_task_destroy"),
    ("bpf_iter_task_vma_new", "bpf_iter_task_vma_destroy"),
    ("bpf_iter_css_new", "bpf_iter_css_destroy"),
    ("bpf_iter_css_task_new", "bpf_iter_css_task_destroy"),
    ("bpf_iter_kmem_cache_new", "bpf_iter_kmem_cache_destroy"),
    ("bpf_iter_dmabuf_new", "bpf_iter_dmabuf_destroy"),
    ("bpf_iter_scx_dsq_new", "bpf_iter_scx_dsq_destroy"),
];

/// What gives back an object from a map value. The helper does not say its type: the kfunc is the one of these that the
/// program itself gives such objects back with. Where it has several, none is taken; the verifier checks the result.
const OBJECTS: [&str; 6] = [
    "bpf_obj_drop_impl",
    "bpf_percpu_obj_drop_impl",
    "bpf_task_release",
    "bpf_cgroup_release",
    "bpf_cpumask_release",
    "bpf_crypto_ctx_release",
];

fn of_kernel_pointer(object: &Object) -> Option<Release> {
    let mut own = OBJECTS.into_iter().filter(|name| call_like(object, name).is_some());
    let name = own.next().filter(|_| own.next().is_none())?;
    let zero = KFUNCS.iter().any(|row| row.1 == name && row.2);
    Some(Release { call: Kfunc(name), name, zero })
}

/// The name of the kfunc that an instruction calls.
fn kfunc<'o>(object: &'o Object, node: &Node) -> Option<&'o str> {
    match node.reference {
        Reference::Extern(id) => object.externs.get(id.index()).map(|found| found.name.as_str()),
        _ => None,
    }
}

/// What gives back what a call acquired; `None` for what landing pads cannot give back.
pub(super) fn of(object: &Object, acquired: &Node) -> Option<Release> {
    // It takes an object out of a map value.
    if acquired.helper() == Some(helper_id::KPTR_XCHG) {
        return of_kernel_pointer(object);
    }
    if let Some(helper) = acquired.helper() {
        let (_, id, name, zero) = HELPERS.iter().find(|row| row.0 == helper)?;
        return Some(Release { call: Helper(*id), name, zero: *zero });
    }
    let own = kfunc(object, acquired)?;
    let iterators = ITERATORS.iter().map(|(begin, end)| (*begin, *end, false));
    let (_, name, zero) = KFUNCS.iter().copied().chain(iterators).find(|row| row.0 == own)?;
    Some(Release { call: Kfunc(name), name, zero })
}

/// A call of a kfunc that the object makes elsewhere: its instruction and reference.
pub(super) fn call_like<'o>(object: &'o Object, name: &str) -> Option<&'o Node> {
    let mut nodes = object.functions.iter().flat_map(|function| &function.nodes);
    nodes.find(|node| matches!(node.insn, kiln_isa::Insn::Call(_)) && kfunc(object, node) == Some(name))
}
